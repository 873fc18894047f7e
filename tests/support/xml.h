/* xml.h - is a text well-formed XML? Of what the library writes: no entities of its own, no
 * CDATA. */
#ifndef QKV_TESTS_XML_H
#define QKV_TESTS_XML_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { XML_DEPTH = 64, XML_NAME = 32 };

typedef struct {
    const char *at;
    const char *why; /* NULL so far */
    char open[XML_DEPTH][XML_NAME];
    int depth;
} xml_reader;

static inline bool xml_is_name(char c)
{
    return c && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:", c);
}

static inline void xml_name(xml_reader *x, char out[XML_NAME])
{
    int n = 0;
    while (xml_is_name(*x->at) && n < XML_NAME - 1)
        out[n++] = *x->at++;
    out[n] = 0;
    if (!n)
        x->why = "a name expected";
}

/* A character of text or of an attribute's value. */
static inline void xml_character(xml_reader *x)
{
    static const char *const references[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    unsigned char c = (unsigned char)*x->at;
    if (c == '&') {
        for (int i = 0; i < 5; i++)
            if (strncmp(x->at, references[i], strlen(references[i])) == 0) {
                x->at += strlen(references[i]);
                return;
            }
        x->why = "& that begins no reference";
    } else if (c == '<' || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
        x->why = "< or a control character in text";
    }
    x->at++;
}

static inline void xml_attributes(xml_reader *x)
{
    char seen[24][XML_NAME];
    int count = 0;
    while (!x->why && *x->at == ' ') {
        x->at++;
        xml_name(x, seen[count]);
        for (int i = 0; i < count; i++)
            if (strcmp(seen[i], seen[count]) == 0)
                x->why = "an attribute twice";
        count += count < 23;
        if (strncmp(x->at, "=\"", 2) != 0) {
            x->why = "=\" expected";
            return;
        }
        for (x->at += 2; !x->why && *x->at != '"';)
            xml_character(x);
        x->at++;
    }
}

static inline void xml_tag(xml_reader *x)
{
    char name[XML_NAME];
    bool end = x->at[1] == '/';
    x->at += end ? 2 : 1;
    xml_name(x, name);
    if (end) {
        if (!x->depth || strcmp(x->open[--x->depth], name) != 0)
            x->why = "an end that nothing opened";
    } else {
        xml_attributes(x);
        if (x->why)
            return;
        if (*x->at == '/')
            x->at++;
        else if (x->depth < XML_DEPTH)
            strcpy(x->open[x->depth++], name);
    }
    if (*x->at++ != '>')
        x->why = "> expected";
}

/* NULL, or what is wrong, with some of the text. */
static inline const char *xml_fault(const char *text)
{
    static char message[200];
    xml_reader x = {.at = text};
    if (strncmp(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", 39) == 0)
        x.at += 39;
    while (!x.why && *x.at) {
        if (*x.at == '<')
            xml_tag(&x);
        else
            xml_character(&x);
    }
    if (!x.why && x.depth)
        x.why = "an element that does not end";
    if (!x.why)
        return NULL;
    long from = x.at - text > 40 ? x.at - text - 40 : 0;
    snprintf(message, sizeof message, "%s near \"%.80s\"", x.why, text + from);
    return message;
}

#endif
