/* exec/context/text_pages.h - the first entries of a text's states, in memory that is never written. States of texts
 * that begin alike map it instead of copies; a text that writes into a page gets its own copy of that page. */
#ifndef EXEC_TEXT_PAGES_H
#define EXEC_TEXT_PAGES_H
#include <stdint.h>

typedef struct text_pages text_pages;
enum { TEXT_PAGES_LEAST = 1 << 20 /* bytes of a text; fewer are copied */ };

/* The entries of a text in one state: blocks, `stride` bytes apart; the first `bytes` bytes of each block are
 * copied. */
typedef struct text_part {
    const char *data;
    int64_t blocks, stride, bytes;
} text_part;

/* Copies the whole pages of `entries` entries. NULL: there is no such memory. */
text_pages *text_pages_create(const text_part *parts, uint32_t count, int64_t entries);
text_pages *text_pages_ref(text_pages *pages);
void text_pages_unref(text_pages *pages); /* NULL is a no-op */
int64_t text_pages_entries(const text_pages *pages);
/* Replaces the first pages of `to`, at most `bytes` bytes, by those of a block. `to` is private memory of
 * run_memory_is_mapped(). Returns the number of bytes; 0: none, `to` is unchanged. */
int64_t text_pages_map(const text_pages *pages, uint32_t part, int64_t block, char *to, int64_t bytes);
/* Reports that the caller unmaps this number of mappings of text_pages_map(). A process has a limited number. */
void text_pages_forget(uint32_t mappings);
#endif
