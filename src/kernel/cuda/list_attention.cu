/* list_attention.cu - attention of few queries, and the largest of a row: parts, then all of them
 * together. */
#include <cstring>

#include "kernel/cuda/list_host.cuh"

/* ---- attention ------------------------------------------------------------------------------- */

bool list_has_few(const att_problem &p)
{
    if (p.many || p.bias || p.B > ATT_INLINE || p.B * p.longest_q > LIST_ROWS_MOST ||
        !list_lock(false))
        return false;
    list_done();
    return true;
}

static att_sequence sequence(const att_problem &p, int b)
{
    if (!p.even)
        return p.few[b];
    att_sequence s = p.few[0];
    s.q_begin += (size_t)b * p.q_step;
    s.k_begin += (size_t)b * p.k_step;
    return s;
}

/* Rows of queries and of keys that a problem has to do with. */
struct rows_touched {
    size_t q_first, q_end, k_first, k_end;
};

static rows_touched rows_of(const att_problem &p)
{
    rows_touched r = {SIZE_MAX, 0, SIZE_MAX, 0};
    for (int b = 0; b < p.B; b++) {
        const att_sequence s = sequence(p, b);
        const size_t q_end = s.q_begin + (size_t)s.q_len, k_end = s.k_begin + (size_t)s.k_len;
        if (s.q_len == 0)
            continue;
        r.q_first = s.q_begin < r.q_first ? s.q_begin : r.q_first;
        r.k_first = s.k_begin < r.k_first ? s.k_begin : r.k_first;
        r.q_end = q_end > r.q_end ? q_end : r.q_end;
        r.k_end = k_end > r.k_end ? k_end : r.k_end;
    }
    return r;
}

/* Keys or values, and their scales. */
static void read_side(list_access *a, const few_side &x, const rows_touched &r, size_t heads,
                      size_t width, size_t bytes)
{
    const size_t rows = r.k_end - r.k_first;
    a[0] = list_reads((const char *)x.data + r.k_first * x.row * bytes,
                      span(rows, x.row, span(heads, x.head, width)) * bytes);
    a[1] = reads(x.scale ? x.scale + r.k_first * heads : NULL, x.scale ? rows * heads : 0);
}

static void add_few(list_kind kind, const list_few_item &item, int sequences,
                    const list_access *accesses, int n)
{
    const size_t bytes = (const char *)&item.p.few[sequences] - (const char *)&item;
    list_item *i = list_add_item(kind, bytes, accesses, n);
    const list_item head = *i;
    memcpy((void *)i, &item, bytes);
    *i = head;
}

bool list_few(qkv_k_kv kind, int rows, size_t blocks, const att_problem &p, const few_job &w)
{
    const rows_touched r = rows_of(p);
    const size_t parts = (size_t)p.B * p.H * w.queries * w.splits * ((size_t)p.Dv + 2);
    const size_t bytes = kind == QKV_K_KV_REAL ? 4 : kind == QKV_K_KV_BF16 ? 2 : 1;
    list_few_item item = {};
    list_access in[6], out[2];
    if (r.q_end == 0 || !list_lock(false))
        return false;
    out[0] = writes(w.out + r.q_first * p.o_row,
                    span(r.q_end - r.q_first, p.o_row, span(p.H, p.o_head, p.Dv)));
    out[1] = writes(w.lse + r.q_first * p.H, (r.q_end - r.q_first) * p.H);
    in[0] = reads(w.q + r.q_first * p.q_row,
                  span(r.q_end - r.q_first, p.q_row, span(p.H, p.q_head, p.D)));
    read_side(in + 1, w.k, r, (size_t)p.Hkv, (size_t)p.D, bytes);
    read_side(in + 3, w.v, r, (size_t)p.Hkv, (size_t)p.Dv, bytes);
    item.store = kind;
    item.rows = rows;
    item.places = (int)blocks;
    item.w = w;
    item.p = p;
    const int sequences = p.even ? 1 : p.B;
    if (w.splits == 1) {
        list_access all[] = {out[0], out[1], in[0], in[1], in[2], in[3], in[4]};
        add_few(LIST_FEW, item, sequences, all, 7);
    } else {
        in[5] = writes(w.part, parts);
        add_few(LIST_FEW, item, sequences, in, 6);
        item.places = (int)(p.B * p.H * w.queries);
        list_access all[] = {out[0], out[1], reads(w.part, parts)};
        add_few(LIST_FEW_WHOLE, item, sequences, all, 3);
    }
    list_done();
    return true;
}

/* ---- the largest ----------------------------------------------------------------------------- */

bool list_best(const best_job &a)
{
    const size_t parts = a.N * best_parts(a.V) * sizeof *a.parts;
    if (a.N > LIST_ROWS_MOST || !list_lock(false))
        return false;
    const list_access in[] = {list_writes(a.parts, parts), reads(a.x, a.N * a.V)};
    const list_access out[] = {list_writes(a.value, a.N * sizeof *a.value, true),
                               list_writes(a.id, a.N * sizeof *a.id, true),
                               list_reads(a.parts, parts, true)};
    list_add_plain<list_best_item>(LIST_BEST, in, 2)->a = a;
    list_add_plain<list_best_item>(LIST_BEST_WHOLE, out, 3)->a = a;
    list_done();
    return true;
}
