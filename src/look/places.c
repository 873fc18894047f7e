/* places.c - the parts of a full name: which stack, which layer, what in it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "qkv/look.h"

/* The layer is the first part that is a number. */
bool qkv_place_parse(qkv_place *out, const char *name)
{
    for (const char *p = name; (p = strchr(p, '.')) != NULL;) {
        char *end;
        p++;
        if (!isdigit((unsigned char)*p))
            continue;
        unsigned long layer = strtoul(p, &end, 10);
        if (*end != '.')
            continue;
        *out = (qkv_place){name, (size_t)(p - 1 - name), (size_t)layer, end + 1};
        return true;
    }
    return false;
}
