"""The tangent kernel and its first descendant, typed in as a user would."""

from derive import Equation

NTK = Equation(
    "N[i,k] = lambda_b delta[i,k] + lambda_W/n delta[i,k] s[a:i] s[a:k]"
    " + W[i,a] W[k,b] s'[a] s'[b] N[a,b]"
)
DNTK = Equation(
    "M[i,j,k] = W[i,a] W[j,b] W[k,c] s''[a] s'[b] s'[c] N[a:i,b:j] N[a:i,c:k]"
    " + W[i,a] W[j,b] W[k,c] s'[a] s'[b] s'[c] M[a,b,c]"
    " + lambda_W/n delta[i,j] s'[a:i] s[a:j] W[k,c] s'[c] N[a:i,c:k]"
    " + lambda_W/n delta[i,k] s'[a:i] s[a:k] W[j,b] s'[b] N[a:i,b:j]",
    using=(NTK,),
)
