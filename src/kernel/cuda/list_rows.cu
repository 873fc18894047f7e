/* list_rows.cu - rows by index, positions, copies of rows and caches. Copies of what a product or a
 * rotation makes become part of it. */
#include "kernel/cuda/list_host.cuh"

enum { DATA_MOST = 1024, COPY_MOST = 1 << 16, ROW_MOST = 2048 };

/* ---- rows by index, positions ---------------------------------------------------------------- */

/* Rows of a table that are read: what is known of them, if the host has given their indices; else
 * all that is behind the first. */
static list_access reads_rows(const float *table, const int32_t *ids, size_t N, size_t C)
{
    const int32_t *known = (const int32_t *)list_given(ids, N * sizeof *ids);
    int32_t most = 0;
    if (!table || !known)
        return list_reads(table, table ? UINTPTR_MAX - (uintptr_t)table : 0);
    for (size_t i = 0; i < N; i++)
        most = known[i] > most ? known[i] : most;
    return reads(table, ((size_t)most + 1) * C);
}

/* Where the device reads indices, and that it does unless they are in the list itself. */
static list_access find_ids(const int32_t **ids, size_t N)
{
    const int32_t *given = (const int32_t *)list_given(*ids, N * sizeof **ids);
    const list_access access = list_reads(*ids, *ids && !given ? N * sizeof **ids : 0);
    if (given)
        *ids = (const int32_t *)list_on_device(given);
    return access;
}

bool list_embed(float *y, const embed_job &a, bool quads)
{
    if (a.N > LIST_ROWS_MOST || !list_lock(true))
        return false;
    embed_job job = a;
    const list_access accesses[] = {
        writes(y, a.N * a.C), reads_rows(a.table, a.ids, a.N, a.C),
        reads_rows(a.ptable, a.positions, a.N, a.C), find_ids(&job.ids, a.N),
        find_ids(&job.positions, a.N)};
    list_embed_item *item = list_add_plain<list_embed_item>(LIST_EMBED, accesses, 5);
    item->a = job;
    item->y = y;
    item->quads = quads;
    list_now()->live = true;
    list_done();
    return true;
}

bool list_embed_small(const embed_small_args &a)
{
    if (a.N > LIST_ROWS_MOST || !list_lock(true))
        return false;
    embed_small_args job = a;
    const list_access accesses[] = {
        writes(a.y, a.N * a.table.k), reads_rows(a.ptable, a.positions, a.N, a.table.k),
        find_ids(&job.ids, a.N), find_ids(&job.positions, a.N)};
    list_add_plain<list_embed_small_item>(LIST_EMBED_SMALL, accesses, 4)->a = job;
    list_now()->live = true;
    list_done();
    return true;
}

bool list_rotary(const rotary_job &a)
{
    const size_t n = a.N * a.H * a.D;
    if (a.N > LIST_ROWS_MOST || n > LIST_ELEMENTS_MOST || a.half > DATA_MOST / sizeof(double) ||
        !list_lock(false))
        return false;
    rotary_job job = a;
    if (a.half)
        job.frequency = (const double *)list_keep(a.frequency, a.half * sizeof *a.frequency);
    const list_access accesses[] = {
        writes(a.y, span(a.N, a.sy, span(a.H, a.hy, a.D))),
        reads(a.x, span(a.N, a.sx, span(a.H, a.hx, a.D))),
        find_ids(&job.positions, a.N)};
    list_add_plain<list_rotary_item>(LIST_ROTARY, accesses, 3)->a = job;
    list_done();
    return true;
}

/* ---- copies, and caches ---------------------------------------------------------------------- */

/* Rows that an item makes, and whose copies it can store at once. */
struct made_rows {
    const float *y;
    size_t rows, apart, n;
};

static bool rows_made(list_item *i, made_rows *r)
{
    list_made p;
    if (list_product_of(i, &p)) {
        *r = {p.y, p.m, p.ldy, p.n};
        if (p.tail->sum)
            *r = {p.tail->sum, p.m, p.n, p.n};
        return true;
    }
    if (!i || i->kind != LIST_ROTARY)
        return false;
    const rotary_job &a = ((const list_rotary_item *)i)->a;
    *r = {a.y, a.N, a.sy, a.H * a.D};
    return a.hy == a.D && a.sy >= a.H * a.D;
}

static bool is_part(const made_rows &r, const float *x, size_t n)
{
    return x >= r.y && x + n <= r.y + span(r.rows, r.apart, r.n) &&
           (size_t)(x - r.y) % r.apart + n <= r.n;
}

/* The item that the copies c are part of, or that new ones would stand behind. */
static list_item *maker(const list_copies *c)
{
    list_state *l = list_now();
    if (!c)
        return list_last(l);
    return c->flags & LIST_JOINED ? list_at(l, l->maker) : NULL;
}

/* Adds a row to the item of copies that is last, or to a new one. */
static void add_row(float *y, const float *x, size_t n)
{
    list_copies *c = (list_copies *)list_last_of(LIST_COPIES);
    made_rows made;
    const list_access accesses[] = {writes(y, n), reads(x, n)};
    list_state *l = list_now();
    const unsigned before = l->last;
    bool joins = rows_made(maker(c), &made) && is_part(made, x, n);
    bool fits = list_agrees(accesses, joins ? 1 : 2) && list_has_room(sizeof *c - sizeof c->row +
                                                                sizeof(list_row));
    if (!c || c->rows == LIST_PARTS || joins != !!(c->flags & LIST_JOINED) || !fits ||
        !list_remember(accesses, joins ? 1 : 2)) {
        joins = joins && fits && !c;
        c = (list_copies *)list_add_item(LIST_COPIES, sizeof *c - sizeof c->row + sizeof(list_row),
                                         accesses, joins ? 1 : 2);
        c->flags |= joins ? LIST_JOINED : 0;
        c->rows = 0;
        l->maker = before;
    }
    c->row[c->rows++] = {y, x, n};
    list_grow(c, &c->row[c->rows]);
}

static void add_rows(float *y, const float *x, size_t n)
{
    for (size_t at = 0; at < n; at += ROW_MOST) {
        const size_t left = n - at;
        add_row(y + at, x + at, left < ROW_MOST ? left : (size_t)ROW_MOST);
    }
}

bool list_rows(float *y, size_t y_row, const float *x, size_t x_row, size_t rows, size_t n)
{
    if (rows > LIST_ROWS_MOST || rows * n > COPY_MOST / sizeof *y || !list_lock(true))
        return false;
    for (size_t r = 0; r < rows; r++)
        add_rows(y + r * y_row, x + r * x_row, n);
    list_done();
    return true;
}

bool list_copy(void *to, const void *from, size_t bytes)
{
    if (bytes % sizeof(float) || (uintptr_t)to % sizeof(float) || (uintptr_t)from % sizeof(float) ||
        bytes > COPY_MOST || !list_lock(false))
        return false;
    add_rows((float *)to, (const float *)from, bytes / sizeof(float));
    list_done();
    return true;
}

bool list_bytes(void *to, const void *host, size_t bytes)
{
    if (bytes > DATA_MOST || !list_lock(true))
        return false;
    list_add_data(to, host, bytes);
    list_done();
    return true;
}

bool list_kv_store(const kv_rows &a)
{
    const size_t numbers = a.rows * a.heads * a.D;
    if (numbers > COPY_MOST || !list_lock(true))
        return false;
    const list_access accesses[] = {
        list_writes(a.y, numbers * (a.scale ? 1 : 2)),
        writes(a.scale, a.scale ? a.rows * a.heads : 0),
        reads(a.x, span(a.rows, a.x_row, span(a.heads, a.x_head, a.D)))};
    list_kv_item *k = (list_kv_item *)list_last_of(LIST_KV);
    if (!k || k->rows == LIST_PARTS || !list_agrees(accesses, 3) ||
        !list_has_room(2 * sizeof(kv_rows)) || !list_remember(accesses, 3)) {
        k = (list_kv_item *)list_add_item(LIST_KV, sizeof *k - sizeof k->row + sizeof(kv_rows),
                                          accesses, 3);
        k->rows = 0;
    }
    k->row[k->rows++] = a;
    list_grow(k, &k->row[k->rows]);
    list_done();
    return true;
}
