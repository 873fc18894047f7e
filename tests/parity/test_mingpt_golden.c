/* test_mingpt_golden.c - the GPT over grids of codes against a torch module of minGPT's wiring,
 * from a directory in taming-transformers' names: what it says, the loss and every gradient, also
 * where codes that it reads have become others (recipe: tools/make-golden/mingpt.py). Which ones
 * training draws, test_prior.c looks at. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "isas.h"
#include "qkv/prior.h"
#include "rule.h"

enum { GRIDS = 2, VOCAB = 20, CODES = 9, BEFORE = 4 };
static const double share = 0.6; /* of the codes that are read as they are */

static void make_directory(char folder[PATH_BYTES])
{
    qkv_gpt_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_prior_type()), &c);
    c.vocab = VOCAB;
    c.positions = BEFORE + CODES - 1;
    c.width = 32;
    c.layers = 2;
    c.heads = 4;
    make_rule_directory(folder, qkv_prior_type(), &c);
}

/* A key's bias adds the same to all scores of a query. */
static bool idle(const char *name) { return strstr(name, "key.bias"); }

/* What is read, GRIDS rows of before + CODES - 1: what stands before a grid (start: token 0) and
 * the grid but for its last code. */
static qkv_tensor *read_of(fixture *f, size_t before, bool start, bool exchanged)
{
    const size_t length = before + CODES - 1, shape[] = {GRIDS, length};
    int32_t ids[GRIDS * (BEFORE + CODES - 1)];
    for (size_t i = 0; i < GRIDS; i++) {
        for (size_t k = 0; k < before; k++)
            ids[i * length + k] = start ? 0 : rule_id("before", i * BEFORE + k, VOCAB);
        for (size_t k = 0; k + 1 < CODES; k++) {
            size_t at = i * CODES + k;
            bool keep = !exchanged || (double)noise("keep", at) < 2 * share - 1;
            ids[i * length + before + k] = rule_id(keep ? "grid" : "others", at, VOCAB);
        }
    }
    return qkv_tensor_ids(f->t, ids, 2, shape);
}

static void compare_case(const char *folder, const char *name, size_t before, bool start,
                         unsigned isa)
{
    const size_t shape[] = {GRIDS, CODES};
    char logits[32], loss[32], gradients[32];
    int32_t grid[GRIDS * CODES];
    fixture f;
    open_rule_model(&f, folder, "mingpt", isa);
    (void)snprintf(logits, sizeof logits, "%s.logits", name);
    (void)snprintf(loss, sizeof loss, "%s.loss", name);
    (void)snprintf(gradients, sizeof gradients, "%s.gradients", name);
    for (size_t i = 0; i < GRIDS * CODES; i++)
        grid[i] = rule_id("grid", i, VOCAB);
    qkv_tensor *h = qkv_lm_hidden(f.model, f.t, read_of(&f, before, start, !start), 0, NULL, NULL);
    h = qkv_slice(f.t, h, 1, before - 1, before + CODES - 1);
    compare_tensor(&f, logits, qkv_lm_logits(f.model, f.t, h));
    qkv_tensor *sum = qkv_lm_loss(f.model, f.t, h, qkv_tensor_ids(f.t, grid, 2, shape), NULL);
    compare_tensor(&f, loss, sum);
    assert_int_equal(qkv_backward(f.t, sum), QKV_OK);
    compare_rule_gradients(&f, gradients, idle);
    print_message("mingpt, %s: at worst %.3g of what is allowed\n", name, f.worst);
    close_fixture(&f);
}

/* The task that training uses, behind a start token. */
static void compare_task(const char *folder, unsigned isa)
{
    int32_t grid[GRIDS * CODES];
    fixture f;
    qkv_task task;
    const qkv_code_grids g = {.count = GRIDS, .codes = CODES, .before = 1, .grids = grid};
    const qkv_micro_batch part = {.count = GRIDS, .total = GRIDS};
    open_rule_model(&f, folder, "mingpt", isa);
    for (size_t i = 0; i < GRIDS * CODES; i++)
        grid[i] = rule_id("grid", i, VOCAB);
    assert_int_equal(qkv_task_prior(&task, f.model, &g, NULL, 1, 1), QKV_OK);
    qkv_tape_mode(f.t, true, true);
    qkv_tensor *loss = task.type->loss(task.self, f.t, &part);
    compare_tensor(&f, "start.loss", loss);
    assert_int_equal(qkv_backward(f.t, loss), QKV_OK);
    compare_rule_gradients(&f, "start.gradients", idle);
    qkv_task_destroy(&task);
    close_fixture(&f);
}

static void run_all(unsigned isa)
{
    char folder[PATH_BYTES];
    make_directory(folder);
    compare_case(folder, "start", 1, true, isa);
    compare_case(folder, "exchanged", BEFORE, false, isa);
    compare_task(folder, isa);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISA_TESTS
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
