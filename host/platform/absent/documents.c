/* No settings files are read: config/tree.h, config/document.h. */
#include "config/document.h"
#include <stdarg.h>
#include <stdio.h>

inlay_status mistake(struct mistakes *mistakes, uint32_t line, inlay_status status, const char *format, ...)
{
    char text[512];
    va_list args;

    (void)line;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (mistakes->count++ == 0)
        mistakes->status = inlay_fail(mistakes->diag, status, "%s: %s", mistakes->path, text);
    return status;
}

inlay_status mistake_no_memory(struct mistakes *mistakes)
{
    return mistake(mistakes, 0, INLAY_OUT_OF_MEMORY, "no memory to read it");
}

inlay_status tree_parse(const char *text, size_t bytes, struct arena *arena, struct mistakes *mistakes,
                        tree_node **out_root)
{
    (void)text, (void)bytes, (void)arena;
    *out_root = NULL;
    return mistake(mistakes, 0, INLAY_UNSUPPORTED,
                   "this build reads no settings files: use options and INLAY_ variables, and remove the file");
}

inlay_status document_read(const tree_node *root, struct arena *arena, struct mistakes *mistakes,
                           struct document *out_document)
{
    (void)root, (void)arena, (void)mistakes;
    *out_document = (struct document){ .count = 0 };
    return INLAY_OK;
}
