/* text.h - strings: what filters and methods share. */
#ifndef QKV_SRC_JINJA_TEXT_H
#define QKV_SRC_JINJA_TEXT_H

#include "jinja/run.h"

#define FILTER(name)                                                                               \
    static qkv__jinja_value filter_##name(qkv__jinja_run *r, qkv__jinja_value self,                \
                                          const qkv__jinja_arguments *args)
#define NO_ARGUMENTS ((void)r, (void)args)

/* s as a string that is safe if self is: what markupsafe gives for a part of it, for example. */
qkv__jinja_value qkv__jinja_part_of(qkv__jinja_value self, qkv__jinja_str s);

/* A character's other case, one for one; before: the character before it, -1 at the beginning. */
typedef int32_t qkv__jinja_case(int32_t cp, int32_t before);
qkv__jinja_case qkv__jinja_upper, qkv__jinja_lower, qkv__jinja_capitalize,
    qkv__jinja_title,           /* str.title: letters after what is no letter */
    qkv__jinja_title_of_filter; /* jinja2's: after a space, a hyphen or an opening bracket */
/* Of str(self). */
qkv__jinja_value qkv__jinja_change_case(qkv__jinja_run *r, qkv__jinja_value self,
                                        qkv__jinja_case *change);

qkv__jinja_value qkv__jinja_replace(qkv__jinja_run *r, qkv__jinja_str s, qkv__jinja_str from,
                                    qkv__jinja_str to, size_t most);

#endif
