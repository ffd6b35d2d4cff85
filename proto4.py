import proto; proto.SINGLE=True
from proto2 import *
from proto3 import runf
from derive.engine import shipped as L
import sys
def closure(stages, names, w, single=True):
    """Recursions stage by stage, from the last."""
    targets={named(t)[1:4]:None for t in names}
    wanted=[(nm.fields,nm.order,nm.pairing) for nm in map(named,names)]
    out={}
    done=set()
    pend=[(len(stages)-1,wd) for wd in wanted]
    while pend:
        k,(f,o,p)=pend.pop()
        if (k,f,o,p) in done: continue
        done.add((k,f,o,p))
        t0=time.process_time()
        r=runf(stages[k],f,p,o,w,single)
        out[k,f,o,p]=(r,time.process_time()-t0)
        for mono,_ in r:
            for a,_e in mono:
                if isinstance(a,Tensor):
                    pend.append(((k-1)%len(stages),(a.fields,a.order,a.pairing)))
                if isinstance(a,Bracket):pass
    return out
if __name__=="__main__":
    layer=eval("L."+sys.argv[1]); names=sys.argv[2].split(",")
    w=Orthogonal() if len(sys.argv)>3 else Gaussian()
    t0=time.process_time()
    out=closure(layer,names,w)
    for (k,f,o,p),(r,t) in sorted(out.items(),key=lambda x:x[0][0]):
        e=sympy.factor(sympy.simplify(expr(r)))
        print(k,[str(x) for x in f],o,p,f"{t:.2f}",str(e)[:300])
    print("total",time.process_time()-t0)
