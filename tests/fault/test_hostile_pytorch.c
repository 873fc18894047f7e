/* test_hostile_pytorch.c - PyTorch files with code in them, or that lie: refused by the name that
 * they ask for, or by what is wrong, in one sentence. Cuts and changed bytes are in
 * test_hostile_files.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "pytorch/pytorch.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/pytorch"

static void assert_refused(const char *path, const char *words)
{
    qkv__pytorch *p;
    qkv_status status = qkv__pytorch_open(&p, ctx, path, NULL);
    const char *message = qkv_context_message(ctx);
    if (!status)
        fail_msg("%s was read", path);
    assert_null(p);
    if (!strstr(message, words) || !strstr(message, path) || strchr(message, '\n'))
        fail_msg("expected \"%s\", found: %s", words, message);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
}

static void code_is_refused_by_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"refused-system.pth", "asks for posix.system"},
        {"refused-system-legacy.pth", "asks for posix.system"},
        {"refused-plain.pth", "asks for os.system"},
        {"refused-eval.pth", "asks for builtins.eval"},
        {"refused-load.pth", "asks for torch.serialization.load"},
        {"refused-class.pth", "asks for __main__.Settings"},
        {"refused-module.pth", "asks for torch.nn.modules.linear.Linear"},
        {"refused-complex.pth", "asks for torch.ComplexFloatStorage"},
        {"refused-script.pth", "TorchScript archive holds code"},
        {"refused-hooks.pth", "a parameter has hooks"},
        {"refused-negative.pth", "negative view"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(in(GOLDEN, cases[i].file), cases[i].words);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"none.pth", "holds no tensors"},
        {"refused-big.pth", "big-endian"},
        {"refused-big-legacy.pth", "big-endian"},
        {"refused-tar.pth", "a tar archive"},
        {"refused-pickle.pth", "without PyTorch's magic number"},
        {"refused-deflated.pth", "found compression method 8"},
        {"refused-other.pth", "without data.pkl"},
        {"refused-missing.pth", "storage 0: the archive does not hold it"},
        {"refused-size.pth", "storage 0: its size"},
        {"refused-cycle.pth", "hold themselves"},
        {"refused-deep.pth", "more than 64 deep"},
        {"refused-laughs.pth", "too many values"},
        {"refused-unfolded.pth", "far larger than the file"},
        {"refused-names.pth", "two tensors are named \"a.b\""},
        {"refused-key.pth", "is a tuple"},
        {"types.safetensors", "expected a PyTorch file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(in(GOLDEN, cases[i].file), cases[i].words);
}

#define CASE(text, words) {"\x80\x02" text, sizeof text + 1, words}
static const struct {
    const char *bytes;
    size_t size;
    const char *words;
} lies[] = {
    CASE("", "ends early"),
    CASE("N", "ends early"),
    CASE(".", "more or less than one value"),
    CASE("NN.", "more or less than one value"),
    CASE("(N.", "more or less than one value"),
    CASE("N.", "without PyTorch's magic number"),
    CASE("\x80\x06N.", "expected protocol 2 to 5, found 6"),
    CASE("X\xff\xff\xff\xff" "abc.", "ends early"),
    CASE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff" "abc.", "ends early"),
    CASE("\x8b\xff\xff\xff\xff" "abc.", "ends early"),
    CASE("\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "magic number"), /* a frame's length */
    CASE("J\x01\x02", "ends early"),
    CASE("Nr\xff\xff\xff\x7f.", "memo index is too large"),
    CASE("h\x05.", "memo index names nothing"),
    CASE("Nq\x02h\x01.", "memo index names nothing"),
    CASE("t.", "there is no mark"),
    CASE("1.", "there is no mark"),
    CASE("e.", "there is no mark"),
    CASE("0.", "the stack is empty"),
    CASE("2.", "the stack is empty"),
    CASE("q\x01.", "the stack is empty"),
    CASE("N\x86.", "the stack is empty"),
    CASE("N(a.", "the stack is empty"),
    CASE("N(2.", "the stack is empty"),
    CASE("R.", "the stack is empty"),
    CASE("(NR.", "the stack is empty"),
    CASE("(e.", "the stack is empty"),
    CASE("))R.", "calls what is no function"),
    CASE("ctorch\nSize\nNR.", "calls what is no function"),
    CASE("ctorch\nFloatStorage\n)R.", "calls torch.FloatStorage"),
    CASE("ctorch\nSize\n)R.", "made of what is none"),
    CASE("ccollections\nOrderedDict\nN\x85R.", "made of what is none"),
    CASE("ccollections\nOrderedDict\n]Na\x85R.", "what are no pairs"),
    CASE("ctorch._utils\n_rebuild_tensor_v2\n)R.", "a tensor is not made of"),
    CASE("ctorch._utils\n_rebuild_tensor_v3\n)R.", "a tensor has no type"),
    CASE("ctorch._utils\n_rebuild_parameter\n)R.", "no tensor"),
    CASE("]N}u.", "there is no mark"),
    CASE("](}NNu.", "put into what cannot hold them"),
    CASE("}(Nu.", "put into what cannot hold them"),
    CASE(")Na.", "put into what cannot hold them"),
    CASE("(Nd.", "a key has no value"),
    CASE("NQ.", "no tuple"),
    CASE(")Q.", "expected a storage"),
    CASE("]}b.", "it sets the state of a list"),
    CASE("}Nb.", "it sets the state of a dict"),
    CASE("NN\x93.", "a name is no text"),
    CASE("ctorch", "ends early"),
    CASE("ctorch\nSize", "ends early"),
    CASE("cos\nsystem\n.", "asks for os.system"),
    CASE("(ios\nsystem\n.", "asks for os.system"),
    CASE("U\x02os" "U\x06system\x93.", "asks for os.system"),
    CASE("U\x04o\ns\xffU\x03s\0m\x93.", "asks for o?s?.s?m"),
    CASE("U\x06torch\0U\x04Size\x93.", "asks for torch?.Size"),
    CASE("ctorch.cuda\nSize\n.", "asks for torch.cuda.Size"),
    CASE("\x82\x01.", "opcode 0x82"),
    CASE("S'os'\n.", "opcode 0x53"),
    CASE("I1\n.", "opcode 0x49"),
    CASE("\x97.", "opcode 0x97"),
};
#undef CASE

/* The first pickle of a file is read by the same machine as all others. */
static void pickles_that_lie(void **state)
{
    (void)state;
    const char *path = in(folder, "pickle.pth");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const qkv__pytorch_options o = {.skip_objects = true};
        qkv__pytorch *p;
        put_file(path, lies[i].bytes, lies[i].size);
        assert_refused(path, lies[i].words);
        assert_int_not_equal(qkv__pytorch_open(&p, ctx, path, &o), QKV_OK);
        assert_non_null(strstr(qkv_context_message(ctx), path));
    }
}

/* ---- tensors that lie --------------------------------------------------------------------- */

typedef struct {
    char bytes[4096];
    size_t size;
} text;

static void add(text *t, const void *bytes, size_t size)
{
    assert_true(size <= sizeof t->bytes - t->size);
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

#define ADD(t, literal) add(t, literal, sizeof(literal) - 1)

/* The three pickles in front of every file of the older format. */
static void add_head(text *t)
{
    size_t size;
    char *bytes = take_file(GOLDEN "/python2.pth", &size);
    static const char begin[] = "\x80\x02" "ccollections";
    size_t at = 0;
    while (memcmp(bytes + at, begin, sizeof begin - 1) != 0)
        at++;
    add(t, bytes, at);
    free(bytes);
}

/* {"w": a tensor of a storage of 4 numbers}, made of the pickled offset, shape and stride. */
static const char *file_of(const char *places, size_t size, const char *keys, size_t keys_size,
                           uint64_t count)
{
    static const float numbers[4] = {1, 2, 3, 4};
    text t = {.size = 0};
    add_head(&t);
    ADD(&t, "\x80\x02}U\x01wctorch._utils\n_rebuild_tensor\n(");
    ADD(&t, "(U\x07storagectorch\nFloatStorage\nU\x01kU\x03" "cpuK\x04tQ");
    add(&t, places, size);
    ADD(&t, "tRs.");
    add(&t, keys, keys_size);
    add(&t, &count, sizeof count);
    add(&t, numbers, sizeof numbers);
    const char *path = in(folder, "tensor.pth");
    put_file(path, t.bytes, t.size);
    return path;
}

static const char keys_of_one[] = "\x80\x02]U\x01ka.";

#define CASE(text, words) {text, sizeof text - 1, words}
#define BIG "\x8a\x08\0\0\0\0\0\0\0\x40" /* 2^62 */
static const struct {
    const char *places;
    size_t size;
    const char *words; /* NULL: it is read */
} places[] = {
    CASE("K\0K\x04\x85K\x01\x85", NULL),
    CASE("K\x03K\x01\x85K\x09\x85", NULL),
    CASE("K\0))", NULL),
    CASE("K\x09K\0\x85K\x01\x85", NULL),
    CASE("K\0K\x05\x85K\x01\x85", "beyond its storage"),
    CASE("K\x01K\x04\x85K\x01\x85", "beyond its storage"),
    CASE("K\0K\x02\x85K\x04\x85", "beyond its storage"),
    CASE("K\x04))", "beyond its storage"),
    CASE(BIG "))", "beyond its storage"),
    CASE(BIG "K\x02\x85" BIG "\x85", "beyond its storage"),
    CASE("K\0K\x03\x85" BIG "\x85", "beyond its storage"),
    CASE("K\0K\x09\x85" BIG "\x85", "beyond its storage"),
    CASE("K\0" BIG "\x85K\0\x85", "far larger than the file"),
    CASE("K\0" BIG BIG "\x86K\0K\0\x86", "far larger than the file"),
    CASE("K\0" BIG "K\0\x86K\0K\0\x86", NULL),
    CASE("J\xff\xff\xff\xffK\x01\x85K\x01\x85", "a tensor is not made of"),
    CASE("K\0J\xff\xff\xff\xff\x85K\x01\x85", "or negative"),
    CASE("K\0K\x01\x85J\xff\xff\xff\xff\x85", "or negative"),
    CASE("K\0N\x85K\x01\x85", "no number"),
    CASE("K\0K\x01\x85)", "a tensor is not made of"),
    CASE("K\0NN", "a tensor is not made of"),
    CASE("", "a tensor is not made of"),
};
#undef BIG
#undef CASE

static void tensors_that_lie(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *path = file_of(places[i].places, places[i].size, keys_of_one,
                                   sizeof keys_of_one - 1, 4);
        qkv__pytorch *p;
        if (places[i].words) {
            assert_refused(path, places[i].words);
            continue;
        }
        if (qkv__pytorch_open(&p, ctx, path, NULL))
            fail_msg("case %zu: %s", i, qkv_context_message(ctx));
        qkv__pytorch_close(p);
    }
}

static void storages_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        size_t size;
        uint64_t count;
        const char *words;
    } storages[] = {
        {keys_of_one, sizeof keys_of_one - 1, 3, "storage k: its size"},
        {keys_of_one, sizeof keys_of_one - 1, 5, "storage k: the file is too short"},
        {keys_of_one, sizeof keys_of_one - 1, UINT64_MAX, "storage k: the file is too short"},
        {"\x80\x02].", 4, 4, "storage k: the file does not hold it"},
        {"\x80\x02]U\x01xa.", 8, 4, "storage x: no tensor has it"},
        {"\x80\x02]Na.", 6, 4, "key is no text"},
        {"\x80\x02N.", 4, 4, "expected a list"},
    };
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++)
        assert_refused(file_of("K\0K\x04\x85K\x01\x85", 8, storages[i].keys, storages[i].size,
                               storages[i].count), storages[i].words);
}

/* ---- archives that lie -------------------------------------------------------------------- */

/* Every number of the directory and the end record, made as large as it can be or 0. */
static void archives_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *record; /* behind "PK" */
        size_t length, size; /* of the record; of a field */
    } records[] = {{"\x01\x02", 46, 4}, {"\x05\x06", 22, 4}, {"\x03\x04", 30, 2},
                   {"\x06\x06", 56, 8}, {"\x06\x07", 20, 8}};
    static const char *const values[] = {"\xff\xff\xff\xff\xff\xff\xff\xff",
                                         "\xff\xff\xff\x7f\xff\xff\xff\x7f", "\0\0\0\0\0\0\0\0"};
    size_t size;
    char *bytes = take_file(GOLDEN "/tensor.pth", &size);
    const char *path = in(folder, "archive.pth");
    for (size_t r = 0; r < sizeof records / sizeof *records; r++)
        for (size_t at = 0; at + records[r].length <= size; at++) {
            char kept[8];
            if (memcmp(bytes + at, "PK", 2) != 0 ||
                memcmp(bytes + at + 2, records[r].record, 2) != 0)
                continue;
            for (size_t f = 4; f + records[r].size <= records[r].length; f += 2)
                for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
                    qkv__pytorch *p;
                    memcpy(kept, bytes + at + f, records[r].size);
                    memcpy(bytes + at + f, values[k], records[r].size);
                    put_file(path, bytes, size);
                    if (qkv__pytorch_open(&p, ctx, path, NULL))
                        assert_non_null(strstr(qkv_context_message(ctx), path));
                    qkv__pytorch_close(p);
                    memcpy(bytes + at + f, kept, records[r].size);
                    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
                }
        }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_refused_by_its_name),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(pickles_that_lie),
        cmocka_unit_test(tensors_that_lie),
        cmocka_unit_test(storages_that_lie),
        cmocka_unit_test(archives_that_lie),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
