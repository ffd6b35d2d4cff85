import proto; proto.SINGLE=True
from proto2 import *
Y=Kind("y","z")
def norm_rms():
    mean=S.Mean(q,(S.Variable(ZK,H_),S.Variable(ZK,H_)),"z")
    eq=S.Equation((S.Product((S.Variable(ZK,L_),S.Collective(0,(0,)))),))
    return S.Stage(((Y,eq),),(),(),(mean,),((q+eps)**sympy.Rational(-1,2),))
def asy(f): return Field(f.nodes,f.edges,(Y,)*f.nodes)
def runf(stage,fields,pairing,order,weights=Gaussian(),single=True):
    staged.STAGE=stage
    n=2*len(pairing); samples=(1,)*n if single else tuple(range(1,n+1))
    p=len(pairing)-1+order
    r=staged.stage_cumulant(stage,fields,samples,weights,p,pairing)
    return {k:v for k,v in r.items() if k[1]==p}
if __name__=="__main__":
    import sys
    st=norm_rms()
    for t in sys.argv[1].split(","):
        nm=named(t); t0=time.process_time()
        r=runf(st,tuple(asy(f) for f in nm.fields),nm.pairing,nm.order)
        t1=time.process_time()
        e=sympy.factor(sympy.simplify(expr(r)))
        print(t,len(r),f"{t1-t0:.2f}",sympy.simplify(e.subs(eps,0)) if len(str(e))<3000 else "long",flush=True)
