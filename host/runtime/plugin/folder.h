/* plugin/folder.h - the plugin files of a folder, in the order in which they are loaded. Private to this folder. */
#ifndef PLUGIN_FOLDER_H
#define PLUGIN_FOLDER_H
#include "inlay/status.h"

typedef struct folder_list {
    char **names; /* [count], without the path */
    uint32_t count;
} folder_list;

/* Lists the files *.so of dir by name, in the order of bytes. If the notes of two files have the plugin name or a
 * provider in common, the file with the higher version comes first. Reads the files' notes; runs none of their code.
 * INLAY_IO_ERROR: dir cannot be read; diag names it as `shown`. */
INLAY_NODISCARD inlay_status folder_list_init(folder_list *list, const char *dir, const char *shown, inlay_diag *diag);
void folder_list_deinit(folder_list *list);
#endif
