/* test_captions.c - tables of captions under random changes; of those that are accepted, images
 * ask for every row. */
#include "fuzz.h"

#include "text/captions.h"

static qkv_status read_captions(qkv_context *ctx, const char *path)
{
    qkv__captions c = {0};
    size_t from, to, found = 0;
    qkv_status status = qkv__captions_read(&c, ctx, path);
    for (size_t i = 0; i < c.count && !status; i++) {
        if (i && strcmp(c.items[i - 1].file, c.items[i].file) > 0)
            abort();
        if (!c.items[i].used && !qkv__captions_of(&c, c.items[i].file, &from, &to))
            found += to - from;
    }
    if (!status && found != c.count)
        abort();
    qkv__captions_close(&c);
    return status;
}

const fuzz_target fuzz = {
    .read = read_captions,
    .texts = {"file,caption\na.png,one\nb.png,\"two, \"\"three\"\"\nfour\"\n",
              "image;id;text\r\na.png;1;one\r\n./x/b.png;2; two \r\n",
              "a.jpg#0\tone\na.jpg#1\ttwo \"three\"\nb.jpg#0\t\n",
              "\xef\xbb\xbf" "Comment\tFile_Name\nZw\xc3\xb6lf\ta.png\n",
              "a.png,one\nb.png,two"}};
