/* beam.c - a step of beam search in one sentence, as Hugging Face's generate takes it: of all
 * continuations the best max(2, 1 + eos_ids) beams times, of which those that go on stay, and those
 * among the first `beams` that end compete for a place among the finished. */
#include "infer/beam.h"

#include <math.h>
#include <string.h>

static qkv_status grow(qkv__tree *t, int32_t token, int32_t parent, int32_t *node)
{
    if (!qkv__grow(t->ctx, &t->nodes, &t->capacity, t->count + 1, sizeof *t->nodes))
        return QKV_E_MEMORY;
    t->nodes[t->count] = (qkv__node){token, parent};
    *node = (int32_t)t->count++;
    return QKV_OK;
}

/* Puts a beam into its place in a sorted list of at most `most`, behind its equals. */
static void beam_insert(qkv__beam *list, size_t *count, size_t most, const qkv__beam *beam)
{
    size_t i = *count;
    while (i > 0 && beam->score > list[i - 1].score)
        i--;
    if (i == most)
        return;
    *count += *count < most;
    memmove(list + i + 1, list + i, (*count - i - 1) * sizeof *list);
    list[i] = *beam;
}

/* The k best continuations of all that runs. */
static size_t beam_gather(const qkv__sentence *x, const qkv__beam_step *s, const qkv_real *log_p,
                          const int32_t *ids)
{
    size_t count = 0;
    for (size_t b = 0; b < x->running; b++)
        for (size_t i = 0; i < s->k && ids[b * s->k + i] >= 0; i++) {
            qkv_real sum = x->run[b].score + log_p[b * s->k + i];
            if (count == s->k && !(sum > s->candidates[count - 1].score))
                break; /* nor are those after it */
            qkv__beam c = {sum, sum, x->run[b].node, ids[b * s->k + i], b};
            beam_insert(s->candidates, &count, s->k, &c);
        }
    return count;
}

static bool ends(const qkv_generation *g, int32_t token)
{
    for (size_t i = 0; i < g->eos_count; i++)
        if (g->eos_ids[i] == token)
            return true;
    return false;
}

/* What a sum of log-probabilities of so many tokens is divided by. */
static qkv_real divisor(const qkv_generation *g, size_t length)
{
    double n = (double)length;
    return (qkv_real)pow(g->gnmt ? (5 + n) / 6 : n, g->length_penalty);
}

/* Could what runs still become better than the worst that is finished? */
static bool is_over(const qkv__sentence *x, const qkv__beam_step *s)
{
    const qkv_generation *g = s->g;
    bool full = x->finished == g->beams;
    if (x->running == 0 || (full && g->early_stopping == QKV_STOP_FULL))
        return true;
    if (!full)
        return false;
    bool at_last = g->early_stopping == QKV_STOP_NEVER && g->length_penalty > 0;
    qkv_real best = x->run[0].score;
    for (size_t i = 1; i < x->running; i++)
        best = x->run[i].score > best ? x->run[i].score : best;
    return !(best / divisor(g, at_last ? x->most : s->length) > x->done[x->finished - 1].score);
}

/* Those that go on take the place of their parent where it is free, so that little is copied. */
static void beam_settle(qkv__sentence *x, const qkv__beam *kept, size_t count)
{
    bool taken[QKV_BEAMS] = {false};
    size_t place[QKV_BEAMS], open = 0;
    for (size_t i = 0; i < count; i++) {
        bool mine = kept[i].from < count && !taken[kept[i].from];
        place[i] = mine ? kept[i].from : QKV_BEAMS;
        if (mine)
            taken[kept[i].from] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (place[i] == QKV_BEAMS) {
            while (taken[open])
                open++;
            taken[open] = true;
            place[i] = open;
        }
        x->run[place[i]] = kept[i];
    }
    x->running = count;
}

static void beam_finish(qkv__sentence *x, const qkv__beam_step *s, qkv__beam done)
{
    done.score = done.log_p / divisor(s->g, s->length);
    beam_insert(x->done, &x->finished, s->g->beams, &done);
}

qkv_status qkv__beam_advance(qkv__sentence *x, qkv__tree *tree, const qkv__beam_step *s,
                             const qkv_real *log_p, const int32_t *ids)
{
    qkv__beam *c = s->candidates;
    size_t count = beam_gather(x, s, log_p, ids), kept = 0, beams = s->g->beams;
    for (size_t i = 0; i < count; i++) {
        bool end = s->length == s->most || ends(s->g, c[i].token);
        if ((end && i >= beams) || (!end && kept == beams))
            continue;
        qkv_status status = grow(tree, c[i].token, c[i].node, &c[i].node);
        if (status)
            return status;
        if (end)
            beam_finish(x, s, c[i]);
        else
            c[kept++] = c[i]; /* no later than i: nothing that is still to come is lost */
    }
    if (s->length == x->most) { /* too long for its source */
        const size_t counted = x->finished ? 0 : kept;
        for (size_t i = 0; i < counted; i++)
            beam_finish(x, s, c[i]);
        kept = 0;
    }
    beam_settle(x, c, kept);
    x->over = is_over(x, s);
    return QKV_OK;
}
