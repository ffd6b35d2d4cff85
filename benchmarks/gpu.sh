#!/usr/bin/env bash
# Run the CUDA tests, and time the samplers on the GPU beside one thread of this machine's CPU.
#
#     bash benchmarks/gpu.sh
#
# It takes at most 8 minutes and writes benchmarks/gpu.md, a table, and its numbers as JSON below
# benchmarks/gpu. Without a GPU it says so and writes nothing. PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
test -x "$python" || python=python3

if ! "$python" -c 'from numba import cuda; raise SystemExit(not cuda.is_available())' 2>/dev/null; then
    echo "There is no CUDA device that numba of $python can reach: nothing was run or timed."
    echo "The same kernels run in a simulator, without a GPU:"
    echo "    NUMBA_ENABLE_CUDASIM=1 $python -m pytest tests/numeric/test_cuda.py"
    exit 0
fi

timeout 240 "$python" -m pytest -q tests/numeric/test_cuda.py
timeout 240 "$python" -m pytest -q tests/benchmarks/test_cuda.py --benchmark-only \
    --benchmark-max-time=1 --benchmark-autosave --benchmark-storage=file://./benchmarks/gpu
"$python" tests/benchmarks/tabulate.py benchmarks/gpu benchmarks/gpu.md \
    "Seconds of a network of ten layers on the GPU in float64 (here), and in float32 or on the CPU."
cat benchmarks/gpu.md
