/* A user has no folders: config/dirs.h. Nothing is written, so that no file that is read could be replaced. */
#include "config/dirs.h"
#include "base/output.h"

void output_note_read(int fd)
{
    (void)fd;
}

static bool none(char *text, size_t bytes)
{
    if (bytes > 0)
        text[0] = '\0';
    return false;
}

bool config_cache_dir(const inlay_options *options, char *text, size_t bytes)
{
    (void)options;
    return none(text, bytes);
}

bool config_cache_folder(const inlay_options *options, const char *name, char *text, size_t bytes)
{
    (void)options, (void)name;
    return none(text, bytes);
}

bool config_blob_dir(const inlay_options *options, char *text, size_t bytes)
{
    (void)options;
    return none(text, bytes);
}
