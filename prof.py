import proto; proto.SINGLE=True
from proto2 import *
import cProfile,pstats,sys
t=sys.argv[1]
p=cProfile.Profile(); p.enable()
r=run(rms(),t,Gaussian())
p.disable(); pstats.Stats(p).sort_stats("tottime").print_stats(14)
print(len(r[0]))
