/* remote/description.h - the description of an isolated plug-in, as its process reports it. Private to this folder. */
#ifndef ISOLATE_DESCRIPTION_H
#define ISOLATE_DESCRIPTION_H
#include "base/arena.h"
#include "inlay/plugin.h"

typedef struct isolate_plugin isolate_plugin;
/* ctx of inlay_provider. */
typedef struct isolate_info {
    const isolate_plugin *plugin;
    const char *name;
    const char *refused; /* why create fails; NULL: it does not */
    uint32_t index;      /* in the plug-in */
    uint32_t poll_ms;
} isolate_info;

struct isolate_plugin {
    inlay_plugin table;
    const char *helper, *path;
    int fd; /* of the file */
    struct arena arena;
};

/* Fills in plugin->table from the records of ISOLATE_DESCRIBE; table holds the functions of all providers. */
INLAY_NODISCARD inlay_status isolate_read_description(isolate_plugin *plugin, const inlay_provider *functions,
                                                      const char *records, uint32_t bytes, inlay_diag *diag);
#endif
