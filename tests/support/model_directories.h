/* model_directories.h - directories of models that loading refuses or accepts. */
#ifndef MODEL_DIRECTORIES_H
#define MODEL_DIRECTORIES_H

#include "fixture.h"
#include "qkv/hub.h"

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/models/"

static inline void put_text(const char *name, const char *text)
{
    put_file(in(folder, name), text, strlen(text));
}

static inline void copy_golden(const char *model, const char *file)
{
    size_t size;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, GOLDEN "%s/%s", model, file);
    char *bytes = take_file(path, &size);
    put_file(in(folder, file), bytes, size);
    free(bytes);
}

/* Loading fails with the words in one line that names a file of the folder. */
static inline void refuse(const char *words)
{
    qkv_model *m = (qkv_model *)&folder;
    size_t files = files_in(folder);
    qkv_status status = qkv_hub_load(&m, ctx, folder);
    const char *message = qkv_context_message(ctx);
    if (!status)
        fail_msg("taken: \"%s\" was expected", words);
    if (!strstr(message, words) || !strstr(message, folder) || strchr(message, '\n'))
        fail_msg("\"%s\" expected, found: %s", words, message);
    assert_null(m);
    assert_int_equal(files_in(folder), files);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
}

static inline void accept(void)
{
    qkv_model *m;
    if (qkv_hub_load(&m, ctx, folder))
        fail_msg("%s", qkv_context_message(ctx));
    qkv_model_destroy(m);
}

/* What config.json says, and words of the sentence that refuses it; NULL: it is accepted. */
typedef struct {
    const char *text, *words;
} config_case;

static inline void run_cases(const config_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_text("config.json", cases[i].text);
        if (cases[i].words)
            refuse(cases[i].words);
        else
            accept();
    }
}

#endif
