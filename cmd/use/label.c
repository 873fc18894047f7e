/* label.c - names of classes. */
#include "use/label.h"

#include <stdio.h>

const char *cli_label(const qkv_model *m, size_t i, char room[CLI_LABEL])
{
    if (i < qkv_model_label_count(m))
        return qkv_model_label(m, i);
    (void)snprintf(room, CLI_LABEL, "LABEL_%zu", i); /* Hugging Face's name for one without */
    return room;
}
