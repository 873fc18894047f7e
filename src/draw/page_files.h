/* page_files.h - the files beside this one that the build puts into the library. */
#ifndef QKV_SRC_DRAW_PAGE_FILES_H
#define QKV_SRC_DRAW_PAGE_FILES_H

extern const char qkv__file_page_css[];
extern const char qkv__file_page_js[];

#endif
