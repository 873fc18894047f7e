/* manual.h - what is said about commands: help, the man page, shell completion, made from option
 * tables. */
#ifndef QKV_CMD_CORE_MANUAL_H
#define QKV_CMD_CORE_MANUAL_H

#include <qkv.h>

/* All that is said about one command. */
typedef struct {
    const char *name;    /* "train lm" */
    const char *summary; /* one line, no full stop */
    const char *usage;   /* "--data FILE... --out DIR [options]" */
    const char *text;    /* paragraphs with \n\n between; may be NULL */
    const char *const *examples; /* whole lines, NULL at the end; may be NULL */
    const qkv_option_table *const *tables; /* NULL at the end; may be NULL */
    const char *const *about; /* of each table, what it is for, or NULL: always; may be NULL */
    const char *sizes;        /* what --model can be, said behind its help; may be NULL */
    const qkv_preset *presets; /* flag NULL at the end; may be NULL */
    const qkv_preset *const *recipes; /* of a command with --recipe */
} cli_manual;

void cli_manual_help(qkv_str *out, const char *program, const cli_manual *m);

/* roff for man(7): everything about the program and its commands. */
void cli_manual_roff(qkv_str *out, const cli_manual *program, const cli_manual *const *all,
                     size_t count, const char *version);

void cli_manual_bash(qkv_str *out, const char *program, const cli_manual *const *all,
                     size_t count);
void cli_manual_zsh(qkv_str *out, const char *program, const cli_manual *const *all,
                    size_t count);

/* Appends text broken at spaces to lines of at most 80 columns, each after `indent` spaces;
 * `column` is where the first line stands already. Ends with a newline. */
void cli_wrap(qkv_str *out, const char *text, size_t indent, size_t column);

#endif
