/* cli/cache_file.h - what a cache has learnt, as one file that other machines of the same kind take in.
 *
 *     inlay-cache 1 <SHA-256 of what follows> <bytes of the head>\n
 *     the head: {"inlay": "0.1.0", "cpu": "...", "order": "little", "files": [{"name": "costs/machine.json", "bytes":
 * 1234}]}\n the files, one after the other
 *
 * Nothing in it is about one user or one folder: verdicts on plugins and hashes of files on disk stay behind. */
#ifndef CLI_CACHE_FILE_H
#define CLI_CACHE_FILE_H
#include "cli/cli.h"

typedef struct cache_file_result {
    uint32_t files; /* written, or taken in */
    uint32_t kept;  /* not taken in, for there is one already */
    uint64_t bytes; /* of them */
} cache_file_result;

/* Writes the machine's profile and measurements, and with `all` packed weights and compiled regions, to path.
 * INLAY_NOT_FOUND: there is nothing to write. */
INLAY_NODISCARD inlay_status cache_file_export(const cli_common *common, const char *path, bool all,
                                               cache_file_result *out, inlay_diag *diag);
/* Takes such a file in: measurements are merged with those that are there; other files are kept where one of the name
 * is there already, unless replace. A file that is damaged, of another version, or of another processor is refused,
 * whole. */
INLAY_NODISCARD inlay_status cache_file_import(const cli_common *common, const char *path, bool replace,
                                               cache_file_result *out, inlay_diag *diag);
#endif
