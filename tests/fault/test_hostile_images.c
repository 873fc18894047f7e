/* test_hostile_images.c - PNG and JPEG files that lie, end too early or unfold: made here, chunk by
 * chunk. Each is refused in one sentence that names it, or is read, within little memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include <jpeglib.h>
#include <zlib.h>

#include "fixture.h"

#include "base/base.h"
#include "qkv/image_file.h"

#define IMAGES QKV_SOURCE_DIR "/tests/golden/images"

enum { ROOM = 1 << 20, BOMB = 7900000, LITTLE = 48 << 20 /* bytes of memory, for any of them */ };

static uint8_t file[ROOM];
static size_t size;

static void put(const void *data, size_t n)
{
    assert_true(n <= ROOM - size);
    memcpy(file + size, data, n);
    size += n;
}

static void put_u32(uint8_t *at, size_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* ---- PNG ------------------------------------------------------------------------------------- */

static size_t last; /* where the chunk that was put last begins */

static void put_chunk(const char *kind, const void *data, size_t n)
{
    uint8_t four[4];
    last = size;
    put_u32(four, n);
    put(four, 4);
    put(kind, 4);
    put(data, n);
    put_u32(four, crc32(crc32(0, NULL, 0), file + last + 4, (uInt)n + 4));
    put(four, 4);
}

/* n bytes, all of them `byte`, packed behind a head. Returns how many there are in out. */
static size_t pack(uint8_t *out, const char *head, size_t head_bytes, size_t n, int byte)
{
    uLongf packed = ROOM - head_bytes;
    uint8_t *raw = malloc(n);
    assert_non_null(raw);
    memset(raw, byte, n);
    memcpy(out, head, head_bytes);
    assert_int_equal(compress2(out + head_bytes, &packed, raw, n, 9), Z_OK);
    free(raw);
    return head_bytes + packed;
}

/* One word of a recipe: a letter and up to five numbers.
 *   H width,height,depth,colour type,interlaced      P entries (PLTE)      T bytes (tRNS)
 *   D bytes,value: so many of it packed (IDAT)       d bytes that are not packed
 *   Z count: texts of BOMB bytes (zTXt)              I: a profile of as many (iCCP)
 *   E: the end      U: a chunk that must be known and is not
 *   of the file so far: C bytes are cut off, X bytes before its end one is changed, L: the last
 *   chunk's length becomes 2^32 - 1 */
static void put_word(const char *word)
{
    static uint8_t room[ROOM];
    unsigned a[5] = {0};
    (void)sscanf(word + 1, "%u,%u,%u,%u,%u", a, a + 1, a + 2, a + 3, a + 4);
    memset(room, 0, 1024);
    switch (*word) {
    case 'H':
        put_u32(room, a[0]);
        put_u32(room + 4, a[1]);
        room[8] = (uint8_t)a[2];
        room[9] = (uint8_t)a[3];
        room[12] = (uint8_t)a[4];
        put_chunk("IHDR", room, 13);
        break;
    case 'P': put_chunk("PLTE", room, 3 * a[0]); break;
    case 'T': put_chunk("tRNS", room, a[0]); break;
    case 'D': put_chunk("IDAT", room, pack(room, "", 0, a[0], (int)a[1])); break;
    case 'd': put_chunk("IDAT", room, a[0]); break;
    case 'I': put_chunk("iCCP", room, pack(room, "x\0", 3, BOMB, 'a')); break;
    case 'Z':
        for (size_t n = pack(room, "x\0", 3, BOMB, 'a'); a[0]; a[0]--)
            put_chunk("zTXt", room, n);
        break;
    case 'E': put_chunk("IEND", room, 0); break;
    case 'U': put_chunk("QKVX", room, 4); break;
    case 'C': size -= a[0]; break;
    case 'X': file[size - a[0]] ^= 0x55; break;
    case 'L': put_u32(file + last, 0xffffffff); break;
    default: fail_msg("no word: %s", word);
    }
}

static void make_png(const char *recipe)
{
    char words[128];
    size = 0;
    put("\x89PNG\r\n\x1a\n", 8);
    snprintf(words, sizeof words, "%s", recipe);
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest));)
        put_word(word);
}

/* What came of a file: words NULL: an image; else a sentence with the file's name and these. */
static void expect(const char *what, const char *words, const char *name)
{
    qkv_image image;
    size_t before = qkv_machine_peak_rss();
    put_file(in(folder, name), file, size);
    qkv_status status = qkv_image_read(&image, ctx, in(folder, name), NULL);
    const char *said = status ? qkv_context_message(ctx) : "an image";
    if (status ? !words || !strstr(said, words) || !strstr(said, name) : words != NULL)
        fail_msg("%s: expected %s, found %s", what, words ? words : "an image", said);
    if (qkv_machine_peak_rss() > before + LITTLE)
        fail_msg("%s: %zu bytes of memory", what, qkv_machine_peak_rss() - before);
    assert_true(status || (image.data && image.width && image.height));
    qkv_image_free(&image, ctx);
}

static const struct {
    const char *recipe, *words;
} pngs[] = {
    {"H8,8,8,0,0 D72 E", NULL},
    {"H8,8,8,0,1 D79 E", NULL},
    {"H8,8,16,2,0 D392 E", NULL},
    {"H8,8,16,6,1 D535 E", NULL},
    {"H8,8,8,3,0 P2 T1 D72 E", NULL},
    {"H8,8,8,3,0 P2 T300 D72 E", NULL},
    {"H8,8,8,0,0 P2 D72 E", NULL},
    /* what unfolds */
    {"H8,8,8,0,0 Z60 D72 E", NULL},
    {"H8,8,8,0,0 I D72 Z60 E", NULL},
    {"H8,8,8,0,0 D99000000 E", NULL},
    /* sizes */
    {"H0,8,8,0,0 D72 E", "Invalid IHDR"},
    {"H8,0,8,0,0 D72 E", "Invalid IHDR"},
    {"H65537,1,8,0,0 D65538 E", "found 65537 x 1"},
    {"H1,65537,8,0,0 D65538 E", "found 1 x 65537"},
    {"H8193,8193,8,2,0 D72 E", "found 8193 x 8193"},
    {"H8192,8192,8,0,0 D72 E", "Not enough"},
    {"H4294967295,4294967295,8,0,0 D72 E", "out of range"},
    /* types */
    {"H8,8,8,5,0 D72 E", "Invalid IHDR"},
    {"H8,8,3,0,0 D72 E", "Invalid IHDR"},
    {"H8,8,16,3,0 P2 D136 E", "Invalid IHDR"},
    {"H8,8,8,0,2 D72 E", "Invalid IHDR"},
    {"H8,8,8,3,0 D72 E", "Missing PLTE"},
    {"H8,8,8,3,0 P0 D72 E", "palette"},
    {"H8,8,8,3,0 P300 D72 E", "PLTE"},
    {"H8,8,8,0,0 U D72 E", "QKVX"},
    {"H8,8,8,0,0 H8,8,8,0,0 D72 E", "IHDR"},
    {"D72 E", "Missing IHDR"},
    /* data */
    {"H8,8,8,0,0 E", "IEND"},
    {"H8,8,8,0,0 d72 E", "IDAT"},
    {"H8,8,8,0,0 D72,9 E", "adaptive filter"},
    {"H8,8,8,0,0 D71 E", "Not enough"},
    {"H8,8,8,0,1 D78 E", "Not enough"},
    {"H8,8,16,2,0 D391 E", "Not enough"},
    {"H8,8,8,0,0 D72 X1 E", "CRC"},
    {"H8,8,8,0,0 D72 X6 E", "check"},
    {"H8,8,8,0,0 X1 D72 E", "CRC"},
    {"H8,8,8,3,0 P2 X1 D72 E", "CRC"},
    {"H8,8,8,2,0 P2 X1 D200 E", "CRC"},
    {"H8,8,8,0,0 L D72 E", "out of range"},
    {"H8,8,8,0,0 D72 L E", "out of range"},
    /* ends */
    {"H8,8,8,0,0 D72", "cut short"},
    {"H8,8,8,0,0 D72 C4 E", "CRC"},
    {"H8,8,8,0,0 D72 E C1", "cut short"},
    {"H8,8,8,0,0 D72 E C12", "cut short"},
    {"H8,8,8,0,0 D72 E X1", "CRC"},
    {"", "cut short"},
};

static void test_png(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pngs / sizeof *pngs; i++) {
        make_png(pngs[i].recipe);
        expect(pngs[i].recipe, pngs[i].words, "x.png");
    }
}

/* ---- JPEG ------------------------------------------------------------------------------------ */

/* Where the n'th segment with this marker begins, at its 0xff; fails when there is none. */
static size_t find_segment(unsigned marker, unsigned n)
{
    for (size_t at = 2; at + 4 <= size && file[at] == 0xff;) {
        if (file[at + 1] == marker && !n--)
            return at;
        at += 2 + ((size_t)file[at + 2] << 8 | file[at + 3]);
        while (at + 1 < size && (file[at] != 0xff || !file[at + 1] ||
                                 (file[at + 1] >= 0xd0 && file[at + 1] <= 0xd7)))
            at++; /* a scan's data */
    }
    fail_msg("no segment %x", marker);
    return 0;
}

static size_t segment_bytes(size_t at)
{
    return 2 + ((size_t)file[at + 2] << 8 | file[at + 3]);
}

/* One word of a recipe: the letter of a change, a marker in hexadecimal, numbers.
 *   L da,n: its length becomes n     B c0,at,value: a byte behind its length
 *   R da: it is taken out            S n: the last scan is there n times more
 *   C n: n bytes are cut off         A n: as many zeros come behind */
static void change(const char *word)
{
    static uint8_t kept[ROOM];
    unsigned marker = 0, a = 0, b = 0;
    if (strchr("LBR", *word))
        (void)sscanf(word + 1, "%x,%u,%u", &marker, &a, &b);
    else
        (void)sscanf(word + 1, "%u", &a);
    size_t at = marker ? find_segment(marker, 0) : 0;
    switch (*word) {
    case 'L':
        file[at + 2] = (uint8_t)(a >> 8);
        file[at + 3] = (uint8_t)a;
        break;
    case 'B': file[at + 4 + a] = (uint8_t)b; break;
    case 'R': {
        size_t n = segment_bytes(at);
        memmove(file + at, file + at + n, size - at - n);
        size -= n;
        break;
    }
    case 'S': {
        for (size_t i = 0; i + 1 < size; i++)
            at = file[i] == 0xff && file[i + 1] == 0xda ? i : at;
        size_t n = size - 2 - at;
        memcpy(kept, file + at, n);
        for (size -= 2; a; a--)
            put(kept, n);
        put("\xff\xd9", 2);
        break;
    }
    case 'C': size -= a; break;
    case 'A':
        memset(kept, 0, a);
        put(kept, a);
        break;
    default: fail_msg("no word: %s", word);
    }
}

/* 8 x 8 pixels with a scan for each colour. */
static void put_scans(void)
{
    static jpeg_scan_info scans[3];
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct j = {.err = jpeg_std_error(&errors)};
    uint8_t row[24] = {0}, *rows[1] = {row}, *out = NULL;
    unsigned long n = 0;
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, &out, &n);
    j.image_width = j.image_height = 8;
    j.input_components = 3;
    j.in_color_space = JCS_RGB;
    jpeg_set_defaults(&j);
    for (int c = 0; c < 3; c++)
        scans[c] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {c}, .Se = 63};
    j.scan_info = scans;
    j.num_scans = 3;
    jpeg_start_compress(&j, TRUE);
    for (int y = 0; y < 8; y++)
        jpeg_write_scanlines(&j, rows, 1);
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    put(out, n);
    free(out);
}

/* name "": the image above. */
static void make_jpeg(const char *name, const char *recipe)
{
    char words[128], path[PATH_BYTES];
    size_t n;
    size = 0;
    snprintf(path, sizeof path, IMAGES "/%s.jpg", name);
    if (*name) {
        char *data = take_file(path, &n);
        put(data, n);
        free(data);
    } else {
        put_scans();
    }
    snprintf(words, sizeof words, "%s", recipe);
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest));)
        change(word);
}

static const struct {
    const char *from, *recipe, *words;
} jpegs[] = {
    {"colour-444", "", NULL},
    {"print", "", NULL},
    {"", "S100", NULL},
    {"", "S300", "at most 256 scans"},
    {"progressive", "S1", "progression"},
    {"colour-444", "A500", NULL},
    /* lengths of segments: quantisation, size, Huffman codes, scan */
    {"colour-444", "Ldb,0", "marker length"},
    {"colour-444", "Ldb,1", "marker length"},
    {"colour-444", "Ldb,2", "extraneous"},
    {"colour-444", "Ldb,3", "marker length"},
    {"colour-444", "Ldb,65535", "DQT"},
    {"colour-444", "Lc0,2", "marker length"},
    {"colour-444", "Lc0,65535", "marker length"},
    {"colour-444", "Lc4,3", "marker length"},
    {"colour-444", "Lc4,65535", "Huffman"},
    {"colour-444", "Lda,2", "marker length"},
    {"colour-444", "Lda,65535", "marker length"},
    {"colour-444", "Le0,1", "extraneous"},
    {"colour-444", "Le0,65535", "Premature end"},
    /* what is missing */
    {"colour-444", "Rdb", "Quantization"},
    {"colour-444", "Rc4", NULL}, /* the usual codes are known */
    {"colour-444", "Rc0", "SOS before SOF"},
    {"colour-444", "Rda", "extraneous"},
    {"progressive", "Rc2", "SOS before SOF"},
    /* the size: bits, height, width, colours, sampling */
    {"colour-444", "Bc0,0,12", "precision 12"},
    {"colour-444", "Bc0,0,1", "precision 1"},
    {"colour-444", "Bc0,1,0 Bc0,2,0", "Empty"},
    {"colour-444", "Bc0,3,0 Bc0,4,0", "Empty"},
    {"colour-444", "Bc0,1,255 Bc0,2,220 Bc0,3,255 Bc0,4,220", "found 65500 x 65500"},
    {"colour-444", "Bc0,1,32 Bc0,3,32", "found 8232 x 8216"},
    {"colour-444", "Bc0,5,0", "Empty"},
    {"colour-444", "Bc0,5,2", "marker length"},
    {"colour-444", "Bc0,5,255", "marker length"},
    {"colour-444", "Bc0,7,0", "sampling"},
    {"colour-444", "Bc0,7,85", "sampling"},
    {"colour-444", "Bc0,8,3", "Quantization"},
    {"grey", "Bc0,5,4", "marker length"},
    /* ends */
    {"colour-444", "C1", "Premature end"},
    {"colour-444", "C2", "Premature end"},
    {"colour-444", "C200", "Premature end"},
    {"print", "C100", "Premature end"},
    {"progressive", "C100", "Premature end"},
    /* which way is up: offsets and counts that lead nowhere */
    {"turn6", "Be1,10,255 Be1,11,255", NULL},
    {"turn6", "Be1,13,255", NULL},
    {"turn6", "Be1,14,255 Be1,15,255", NULL},
    {"turn6", "Le1,8", "extraneous"},
};

static void test_jpeg(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jpegs / sizeof *jpegs; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s %s", jpegs[i].from, jpegs[i].recipe);
        make_jpeg(jpegs[i].from, jpegs[i].recipe);
        expect(what, jpegs[i].words, "x.jpg");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_jpeg),
    };
    return run_each(tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
