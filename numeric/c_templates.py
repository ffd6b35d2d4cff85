"""The rules of `bracket_single` in C, with holes for `str.format`: `brackets(K, total)`."""

from __future__ import annotations

TRAPEZOID = """\
static double step_of(double scale) {{
    double largest = 0.0;
    for (long j = 0; j < {strips}; j++) {{
        const double needed = {accuracy} + GROWTH[j];
        const double a = fmin(STRIPS[j] / scale, sqrt(2.0 * needed));
        largest = fmax(largest, 2.0 * 3.141592653589793 * a / (needed + 0.5 * a * a));
    }}
    return largest > 1e-5 ? fmin(largest, 0.5) : NAN;
}}

static void brackets(double K, double *total) {{
    double f[{count}], g[{count}];
    for (long j = 0; j < {count}; j++) total[j] = NAN;
    if (!(0.0 <= K && K < INFINITY)) return;
    const double scale = sqrt(K);
    const double h = K > 0.0 ? step_of(scale) : 1.0;
    if (isnan(h)) return;
    integrands(0.0, total);
    if (K == 0.0) return;
    const long count = (long)(38.0 / h);
    for (long k = 1; k < count; k++) {{
        const double x = h * k, w = exp(-0.5 * x * x);
        int small = x > sqrt(2.0 * {accuracy});
        integrands(scale * x, f);
        integrands(-scale * x, g);
        for (long j = 0; j < {count}; j++) {{
            const double term = w * (f[j] + g[j]);
            total[j] += term;
            small = small && fabs(term) <= 1e-17 * fabs(total[j]);
        }}
        if (small) break;
    }}
    for (long j = 0; j < {count}; j++) total[j] *= h / sqrt(2.0 * 3.141592653589793);
}}
"""

PANELS = """\
static void brackets(double K, double *total) {{
    double f[{count}];
    for (long j = 0; j < {count}; j++) total[j] = K == 0.0 ? LIMITS[j] : NAN;
    if (!(0.0 < K && K < INFINITY)) return;
    const double scale = sqrt(K);
    const double reach = {reach}, width = fmin({width}, 2.0 * reach);
    double left = -reach;
    at_kinks(scale, total);
    for (long panel = 0; panel <= {kinks}; panel++) {{
        const double right = panel < {kinks} ? fmin(KINKS[panel] / scale, reach) : reach;
        if (right <= left) continue;
        const long parts = (long)ceil((right - left) / width);
        const double half = 0.5 * (right - left) / parts;
        for (long part = 0; part < parts; part++)
            for (long node = 0; node < {nodes}; node++) {{
                const double x = left + half * (2 * part + 1 + NODES[node]);
                const double w = half * WEIGHTS[node] * exp(-0.5 * x * x);
                integrands(scale * x, f);
                for (long j = 0; j < {count}; j++)
                    total[j] += w / sqrt(2.0 * 3.141592653589793) * f[j];
            }}
        left = right;
    }}
}}
"""
