/* manual_completion.c - bash and zsh completion, made from manuals and option tables.
 *
 * Both scripts look for the longest command name among the words typed so far, then offer its
 * flags; after a flag that takes a file, folder or name they offer those. */
#include <string.h>

#include "core/manual.h"

/* Flags that are offered: not hidden, and not without a flag. */
static const qkv_option *next_flag(const cli_manual *m, size_t *table, size_t *row)
{
    for (; m->tables && m->tables[*table]; ++*table, *row = 0) {
        while (*row < m->tables[*table]->count) {
            const qkv_option *r = &m->tables[*table]->rows[(*row)++];
            if (r->flag && !(r->flags & QKV_OPT_HIDDEN))
                return r;
        }
    }
    return NULL;
}

static bool takes_dir(const qkv_option *row)
{
    return strstr(qkv_option_value_name(row), "DIR") != NULL;
}

static void manual_completion_words(qkv_str *out, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        qkv_str_printf(out, "%s%s", i ? " " : "", names[i]);
}

static void bash_command(qkv_str *out, const cli_manual *m)
{
    const qkv_option *row;
    qkv_str_printf(out, "    '%s')\n        flags='--help", m->name);
    for (size_t t = 0, r = 0; (row = next_flag(m, &t, &r));)
        qkv_str_printf(out, " --%s", row->flag);
    qkv_str_puts(out, "'\n        case \"$previous\" in\n");
    for (size_t t = 0, r = 0; (row = next_flag(m, &t, &r));) {
        if (row->type == QKV_OPT_ENUM) {
            qkv_str_printf(out, "        --%s) choices='", row->flag);
            manual_completion_words(out, row->names);
            qkv_str_puts(out, "' ;;\n");
        } else if (row->type != QKV_OPT_BOOL) {
            qkv_str_printf(out, "        --%s) kind=%s ;;\n", row->flag,
                           takes_dir(row) ? "-d" : "-f");
        }
    }
    qkv_str_puts(out, "        esac ;;\n");
}

void cli_manual_bash(qkv_str *out, const char *program, const cli_manual *const *all,
                     size_t count)
{
    qkv_str_printf(out, "# bash completion for %s; made from its option tables\n_%s()\n{\n"
                   "    local current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
                   "    local previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                   "    local one=\"${COMP_WORDS[1]}\" two=\"${COMP_WORDS[1]} ${COMP_WORDS[2]}\"\n"
                   "    local command= flags= choices= kind=\n    COMPREPLY=()\n"
                   "    case \"$two\" in\n", program, program);
    for (size_t i = 0; i < count; i++)
        if (strchr(all[i]->name, ' '))
            qkv_str_printf(out, "    '%s') [ $COMP_CWORD -gt 2 ] && command=$two ;;\n",
                           all[i]->name);
    qkv_str_puts(out, "    esac\n    [ -z \"$command\" ] && [ $COMP_CWORD -gt 1 ] && "
                       "command=$one\n    case \"$command\" in\n    '') flags='help");
    for (size_t i = 0; i < count; i++) {
        const char *space = strchr(all[i]->name, ' ');
        int length = (int)(space ? (size_t)(space - all[i]->name) : strlen(all[i]->name));
        qkv_str_printf(out, " %.*s", length, all[i]->name);
    }
    qkv_str_puts(out, " --help --version' ;;\n");
    for (size_t i = 0; i < count; i++)
        bash_command(out, all[i]);
    qkv_str_puts(out, "    *)\n        case \"$command\" in\n");
    for (size_t i = 0; i < count; i++) {
        const char *space = strchr(all[i]->name, ' ');
        if (space)
            qkv_str_printf(out, "        %.*s) flags=\"$flags %s\" ;;&\n",
                           (int)(space - all[i]->name), all[i]->name, space + 1);
    }
    qkv_str_printf(out,
                   "        esac ;;\n    esac\n"
                   "    if [ -n \"$choices\" ]; then\n"
                   "        COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
                   "    elif [ -n \"$kind\" ] || { [[ $current != -* ]] && "
                   "[ -z \"${flags%%%%--*}\" ]; }; then\n"
                   "        compopt -o filenames 2>/dev/null\n"
                   "        COMPREPLY=($(compgen ${kind:--f} -- \"$current\"))\n"
                   "    else\n"
                   "        COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
                   "    fi\n}\ncomplete -F _%s %s\n", program, program);
}

/* Inside '...' of an _arguments specification. */
static void zsh_text(qkv_str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            qkv_str_puts(out, "'\\''");
        else if (strchr("[]:\\", *text))
            qkv_str_printf(out, "\\%c", *text);
        else
            qkv_str_add(out, text, 1);
    }
}

static void zsh_command(qkv_str *out, const cli_manual *m)
{
    const qkv_option *row;
    qkv_str_printf(out, "    '%s')\n        _arguments '--help[show help]'", m->name);
    for (size_t t = 0, r = 0; (row = next_flag(m, &t, &r));) {
        qkv_str_printf(out, " \\\n            '%s--%s[", row->type == QKV_OPT_LIST ? "*" : "",
                       row->flag);
        zsh_text(out, row->help);
        qkv_str_puts(out, "]");
        if (row->type == QKV_OPT_ENUM) {
            qkv_str_puts(out, ":name:(");
            manual_completion_words(out, row->names);
            qkv_str_puts(out, ")");
        } else if (row->type != QKV_OPT_BOOL) {
            qkv_str_printf(out, ":value:_files%s", takes_dir(row) ? " -/" : "");
        }
        qkv_str_puts(out, "'");
    }
    qkv_str_puts(out, " \\\n            '*:file:_files' ;;\n");
}

void cli_manual_zsh(qkv_str *out, const char *program, const cli_manual *const *all,
                    size_t count)
{
    qkv_str_printf(out, "#compdef %s\n# zsh completion for %s; made from its option tables\n"
                   "_%s()\n{\n    local -a commands\n    commands=(\n        'help:show help'\n",
                   program, program, program);
    for (size_t i = 0; i < count; i++) {
        qkv_str_puts(out, "        '");
        zsh_text(out, all[i]->name);
        qkv_str_puts(out, ":");
        zsh_text(out, all[i]->summary);
        qkv_str_puts(out, "'\n");
    }
    qkv_str_puts(out, "    )\n    if (( CURRENT == 2 )); then\n"
                       "        _describe command commands\n        return\n    fi\n"
                       "    local command=$words[2]\n    case \"$words[2] $words[3]\" in\n");
    for (size_t i = 0; i < count; i++)
        if (strchr(all[i]->name, ' '))
            qkv_str_printf(out, "    '%s') command=\"$words[2] $words[3]\" ;;\n", all[i]->name);
    qkv_str_puts(out, "    esac\n    case \"$command\" in\n");
    for (size_t i = 0; i < count; i++)
        zsh_command(out, all[i]);
    qkv_str_printf(out, "    *) _files ;;\n    esac\n}\n_%s \"$@\"\n", program);
}
