/* print.c - tensors as text: as few digits as tell the elements apart, and ellipses in what is
 * large. */
#include "qkv/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

enum { NUMBER = 48 }; /* bytes of a number's text */

typedef struct {
    qkv_str *out;
    const qkv_real *reals; /* one of the two */
    const int32_t *ids;
    int ndim;
    size_t shape[QKV_MAX_DIMS], count;
    qkv_print_options o;
    bool cut;       /* ellipses stand for the middle of axes */
    bool powers;    /* numbers have a power of ten */
    bool whole;     /* no digits after the point */
    int width;      /* of the widest number */
} printing;

/* ---- numbers ------------------------------------------------------------------------------- */

static void print_number(const printing *p, size_t i, char text[NUMBER])
{
    double x = p->ids ? p->ids[i] : (double)p->reals[i];
    int digits = (int)p->o.digits;
    if (p->ids)
        snprintf(text, NUMBER, "%d", (int)p->ids[i]);
    else if (p->powers)
        snprintf(text, NUMBER, "%.*e", digits, x);
    else if (p->whole)
        snprintf(text, NUMBER, isfinite(x) ? "%.0f." : "%.0f", x);
    else
        snprintf(text, NUMBER, "%.*f", digits, x);
}

/* Is entry i of n shown? The middle is left out of a tensor that is cut. */
static bool print_shown(const printing *p, size_t i, size_t n)
{
    return !p->cut || n <= 2 * p->o.edge || i < p->o.edge || i >= n - p->o.edge;
}

static bool print_element_shown(const printing *p, size_t i)
{
    bool shown = true;
    for (int k = p->ndim - 1; k >= 0; i /= p->shape[k--])
        shown = shown && print_shown(p, i % p->shape[k], p->shape[k]);
    return shown;
}

/* Form and width of the numbers that are shown. */
static void print_measure(printing *p)
{
    double least = INFINITY, most = 0;
    p->whole = true;
    for (size_t i = 0; i < p->count && !p->ids; i++) {
        double x = fabs((double)p->reals[i]);
        if (!print_element_shown(p, i) || !isfinite(x))
            continue;
        p->whole = p->whole && x == floor(x);
        most = fmax(most, x);
        if (x > 0)
            least = fmin(least, x);
    }
    bool far = most > 0 && most / least > 1000;
    p->powers = !p->ids && (most >= 1e8 || (!p->whole && (far || least < 1e-4)));
    for (size_t i = 0; i < p->count; i++) {
        char text[NUMBER];
        if (!print_element_shown(p, i))
            continue;
        print_number(p, i, text);
        int width = (int)strlen(text);
        p->width = width > p->width ? width : p->width;
    }
}

/* ---- brackets ------------------------------------------------------------------------------ */

static void print_indent(const printing *p, int depth)
{
    qkv_str_printf(p->out, "%*s", depth, "");
}

/* The innermost axis, from element `at` on. */
static void print_innermost(const printing *p, size_t at, int depth)
{
    size_t n = p->ndim ? p->shape[p->ndim - 1] : 1, used = (size_t)depth;
    char text[NUMBER];
    for (size_t i = 0; i < n; i++) {
        bool shown = print_shown(p, i, n);
        if (shown)
            print_number(p, at + i, text);
        size_t wide = shown ? (size_t)p->width : 3;
        if (i && used + wide + 3 > p->o.width) { /* ", " before, "]" or "," behind */
            qkv_str_puts(p->out, ",\n");
            print_indent(p, depth);
            used = (size_t)depth;
        } else if (i) {
            qkv_str_puts(p->out, ", ");
            used += 2;
        }
        qkv_str_printf(p->out, "%*s", (int)wide, shown ? text : "...");
        used += wide;
        if (!shown)
            i = n - p->o.edge - 1; /* the end of what is left out */
    }
}

/* Axis `axis` of the elements from `at` on; blank lines part what has axes of its own. */
static void print_axis(const printing *p, int axis, size_t at)
{
    if (axis >= p->ndim - 1) {
        qkv_str_puts(p->out, p->ndim ? "[" : "");
        print_innermost(p, at, p->ndim);
        qkv_str_puts(p->out, p->ndim ? "]" : "");
        return;
    }
    size_t n = p->shape[axis], step = 1;
    for (int k = axis + 1; k < p->ndim; k++)
        step *= p->shape[k];
    qkv_str_puts(p->out, "[");
    for (size_t i = 0; i < n; i++) {
        for (int k = axis; i && k < p->ndim - 1; k++)
            qkv_str_puts(p->out, k == axis ? ",\n" : "\n");
        if (i)
            print_indent(p, axis + 1);
        if (print_shown(p, i, n)) {
            print_axis(p, axis + 1, at + i * step);
        } else {
            qkv_str_puts(p->out, "...");
            i = n - p->o.edge - 1;
        }
    }
    qkv_str_puts(p->out, "]");
}

static void print_all(printing *p, const qkv_print_options *options)
{
    static const qkv_print_options defaults = {4, 1000, 3, 80};
    p->o = options ? *options : defaults;
    if (!p->o.digits || p->o.digits > 17)
        p->o.digits = defaults.digits;
    p->o.threshold = p->o.threshold ? p->o.threshold : defaults.threshold;
    p->o.edge = p->o.edge ? p->o.edge : defaults.edge;
    p->o.width = p->o.width ? p->o.width : defaults.width;
    p->count = 1;
    for (int i = 0; i < p->ndim; i++)
        p->count *= p->shape[i];
    p->cut = p->count > p->o.threshold;
    qkv_str_puts(p->out, p->ids ? "i32 (" : sizeof(qkv_real) == 4 ? "f32 (" : "f64 (");
    for (int i = 0; i < p->ndim; i++)
        qkv_str_printf(p->out, "%s%zu", i ? ", " : "", p->shape[i]);
    qkv_str_puts(p->out, p->ndim == 1 ? ",)\n" : ")\n");
    print_measure(p);
    print_axis(p, 0, 0);
    qkv_str_puts(p->out, "\n");
}

void qkv_tensor_print(qkv_str *out, qkv_tape *t, const qkv_tensor *x,
                      const qkv_print_options *options)
{
    bool ids = x && qkv_tensor_dtype(x) == QKV_I32;
    printing p = {.out = out, .reals = ids ? NULL : qkv_data(t, x),
                  .ids = ids ? qkv_data_ids(t, x) : NULL, .ndim = x ? qkv_ndim(x) : 0};
    if (!p.reals && !p.ids) {
        qkv_str_puts(out, "none\n");
        return;
    }
    for (int i = 0; i < p.ndim; i++)
        p.shape[i] = qkv_dim(x, i);
    print_all(&p, options);
}

void qkv_param_print(qkv_str *out, qkv_param *param, const qkv_print_options *options)
{
    printing p = {.out = out, .reals = qkv_param_data(param), .ndim = qkv_param_ndim(param)};
    if (!p.reals) {
        qkv_str_puts(out, "none\n");
        return;
    }
    for (int i = 0; i < p.ndim; i++)
        p.shape[i] = qkv_param_dim(param, i);
    qkv_str_printf(out, "%s ", qkv_param_name(param));
    print_all(&p, options);
}
