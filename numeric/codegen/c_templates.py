"""The rules of `bracket_single` in C, with holes for `str.format`: `brackets(K, total)`."""

from __future__ import annotations

TRAPEZOID = """\
static double step_of(double scale) {{
    double largest = 0.0;
    for (long j = 0; j < {strips}; j++) {{
        const double bound = {accuracy} + GROWTH[j];
        const double a = fmin(STRIPS[j] / scale, sqrt(2.0 * bound));
        const double needed = bound + 0.5 * {degree} * log(1.0 + a * a);
        largest = fmax(largest, 2.0 * 3.141592653589793 * a / (needed + 0.5 * a * a));
    }}
    return largest > 1e-5 ? fmin(largest, 0.5) : NAN;
}}

static void brackets(double K, double *total) {{
    double f[{integrands}], g[{integrands}], other[{count}], size[{count}], sizes[{count}];
    for (long j = 0; j < {count}; j++) total[j] = NAN;
    if (!(0.0 <= K && K < INFINITY)) return;
    const double scale = sqrt(K);
    double h = K > 0.0 ? step_of(scale) : 1.0, c = 1.0;
    long count = 1;
    int stretched = 0;
    if (K > 0.0) {{
        if ({stretched_step} > 0.0 && scale >= {stretched}) {{
            const double reach = asinh({reach} * scale / {stretch}) / {stretched_step};
            stretched = !(reach >= {reach} / h);
        }}
        if (!stretched && isnan(h)) return;
        h = stretched ? {stretched_step} : h;
        count = (long)((stretched ? asinh(38.0 * scale / {stretch}) : 38.0) / h);
        c = h / sqrt(2.0 * 3.141592653589793);
    }}
    for (long j = 0; j < {count}; j++) total[j] = other[j] = size[j] = sizes[j] = 0.0;
    for (long k = 0; k < count; k++) {{
        const double u = h * k, x = stretched ? sinh(u) * {stretch} / scale : u;
        const double v = stretched ? cosh(u) * {stretch} / scale : 1.0;
        const double w = (k > 0 ? v : 0.5 * v) * exp(-0.5 * x * x);
        int small = x > sqrt(2.0 * {accuracy});
        double he[{degree} + 2] = {{1.0, x}};
        for (int m = 1; m < {degree}; m++) he[m + 1] = x * he[m] - m * he[m - 1];
        integrands(scale * x, f);
        integrands(-scale * x, g);
        for (long j = 0; j < {count}; j++) {{
            const int at = FAR[j], m = DEGREE[j];
            const double term = w * (f[j] + g[j]);
            const double far = w * he[m] * (m % 2 ? f[at] - g[at] : f[at] + g[at]);
            total[j] += term;
            other[j] += far;
            size[j] += fabs(term);
            sizes[j] += fabs(far);
            small = small && fabs(term) <= 1e-17 * size[j] && fabs(far) <= 1e-17 * sizes[j];
        }}
        if (small) break;
    }}
    for (long j = 0; j < {count}; j++) {{
        const double inverse = pow(1.0 / scale, DEGREE[j]);
        if (DEGREE[j] > 0 && sizes[j] * inverse < size[j]) total[j] = other[j] * inverse;
        total[j] *= c;
    }}
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

FLOW = """\
{flow} {{
    if ({refused}) {{
        for (long k = 0; k < depth * {count}; k++) out[k] = NAN;
        return;
    }}
    {start};
    for (long layer = 1; layer < depth; layer++)
        {step}
}}
"""
