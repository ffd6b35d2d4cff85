from proto import *
from derive.gaussian.brackets import Average, Bracket, Component
q=sympy.Symbol("q",positive=True); m=sympy.Symbol("m"); eps=sympy.Symbol("eps",nonnegative=True)
H_,L_=S.HERE,S.LEFT
def rms(eps=eps):
    mean=S.Mean(q,(S.Variable(ZK,H_),S.Variable(ZK,H_)),"z")
    arg=(S.Product((S.Variable(ZK,H_),S.Collective(0,(0,)))),)
    eq=S.Equation((S.Product((S.Function(0,0,0),),((0,"z"),),(),(0,0)),),True)
    return S.Stage(((ZK,eq),),(S.Matrix(C_W,"z","z"),),(arg,),(mean,),((q+eps)**sympy.Rational(-1,2),))
def layernorm(eps=eps):
    mq=S.Mean(q,(S.Variable(ZK,H_),S.Variable(ZK,H_)),"z")
    mm=S.Mean(m,(S.Variable(ZK,H_),),"z")
    g=(q-m**2+eps)**sympy.Rational(-1,2)
    arg=(S.Product((S.Variable(ZK,H_),S.Collective(0,(0,0)))),S.Product((S.Collective(1,(0,0)),),coefficient=Fraction(-1)))
    eq=S.Equation((S.Product((S.Function(0,0,0),),((0,"z"),),(),(0,0)),),True)
    return S.Stage(((ZK,eq),),(S.Matrix(C_W,"z","z"),),(arg,),(mq,mm),(g,m*g))
def sym(atom, single=True):
    from derive import symbols
    if isinstance(atom,Parameter): return sympy.Symbol(atom.name,positive=True)
    if isinstance(atom,Bracket): return Average(tuple(sorted((1 if single else s,o) for s,o in atom.factors)),tuple(1 if single else s for s in atom.outer))
    if isinstance(atom,S.Response):
        v=atom.function
        for mean,k in zip(atom.means,atom.orders): v=sympy.diff(v,mean.symbol,k)
        K=sympy.Symbol("K",positive=True) if single else Component("K",(atom.sample,)*2)
        sub={}
        for mean in atom.means:
            if len(mean.factors)%2: sub[mean.symbol]=0
            else:
                kk=mean.factors[0].kind.name
                sub[mean.symbol]=sympy.Symbol("K" if kk=="z" else "K_"+kk,positive=True) if single else Component("K",(atom.sample,)*2)
        return v.subs(sub)
    nm,labels=identify(atom)
    return sympy.Symbol(nm.label,positive=nm.label=="K") if single else Component(nm.label,labels)
def expr(r,single=True):
    return sympy.Add(*(sympy.Rational(v.numerator,v.denominator)*sympy.prod([sym(a,single)**e for a,e in mono]) for (mono,_),v in r.items()))
if __name__=="__main__":
    import proto; proto.SINGLE=True
    for make in (rms,layernorm):
      for w in (Gaussian(),Orthogonal()):
        for t in ("K","V","G1","Theta","F","D","B","A","Q","S","T","U"):
            t0=time.time()
            high,low=run(make(eps),t,w)
            t1=time.time()
            e=sympy.factor(sympy.simplify(expr(high)))
            l=sympy.simplify(expr(low))
            e0=sympy.simplify(e.subs(eps,0))
            print(make.__name__,w,t,len(high),f"{t1-t0:.2f}", e0 if len(str(e0))<600 else "long", "LOW",l)
