import proto; proto.SINGLE=True
from proto2 import *
from collections import Counter
import time
st=rms()
for d in (0,1,2):
    t0=time.process_time()
    r=S.through(st,H,(0,1),(1,1),d)
    print("H",d,len(r),Counter(len(x.neurons) for x in r),time.process_time()-t0)
    r=S.through(st,Z,(0,),(1,),d); print("z",d,len(r))
