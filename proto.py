import sympy, time
from fractions import Fraction
from derive.engine import stages as S, staged
from derive.engine.fields import *
from derive.engine.tensors import *
from derive.arithmetic.parameters import *
from derive.engine.cumulants import layer_cumulant
from derive import Gaussian, Orthogonal
ZK=STREAM; SINGLE=False
def dense():
    arg=(S.Product((S.Variable(ZK,S.HERE),)),)
    eq=S.Equation((S.Product((S.Function(0,0,0),),((0,"z"),),(),(0,0)),),True)
    return S.Stage(((ZK,eq),),(S.Matrix(C_W,"z","z"),),(arg,))
def run(stage,name,weights,order=None):
    staged.STAGE=stage
    nm=named(name)
    power=len(nm.pairing)-1+nm.order
    samples=(1,)*(2*len(nm.pairing))
    samples=samples if not SINGLE else (1,)*len(samples); samples=tuple(range(1,2*len(nm.pairing)+1)) if not SINGLE else samples
    r=staged.stage_cumulant(stage,nm.fields,samples,weights,power,nm.pairing)
    return {k:v for k,v in r.items() if k[1]==power}, {k:v for k,v in r.items() if k[1]<power}
if __name__=="__main__":
    for w in (Gaussian(),Orthogonal()):
        for t in ("K","V","G1","Theta","D","F","A","B","P","Q","R","S","T","U"):
            t0=time.time()
            nm=named(t)
            power=len(nm.pairing)-1+nm.order
            mine,low=run(dense(),t,w)
            t1=time.time()
            theirs=layer_cumulant(nm.fields,tuple(range(1,2*len(nm.pairing)+1)),w,power,pairing=nm.pairing)[nm.pairing]
            theirs={k:v for k,v in theirs.items() if k[1]==power}
            print(t,mine==theirs,len(mine),len(theirs),low=={},round(t1-t0,2),round(time.time()-t1,2))
