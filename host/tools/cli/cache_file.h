/* cli/cache_file.h - the contents of a cache as one file, which other machines of the same kind can import.
 *
 *     inlay-cache 1 <SHA-256 of all that follows> <bytes of the head>\n
 *     the head: {"inlay": "0.1.0", "cpu": "...", "threads": 8, "order": "little",
 *                "files": [{"name": "costs/machine.json", "bytes": 1234}]}\n
 *     the contents of the files, concatenated
 *
 * The file holds nothing about a user or a folder: verdicts on plugins and hashes of files on disk are not exported. */
#ifndef CLI_CACHE_FILE_H
#define CLI_CACHE_FILE_H
#include "cli/cli.h"

typedef struct cache_file_result {
    uint32_t files; /* exported, or imported */
    uint32_t kept;  /* not imported, because the cache already has a file of that name */
    uint64_t bytes; /* size of `files` */
} cache_file_result;

/* Writes the machine profile and the measurements to path; with `all` also packed weights and compiled regions.
 * INLAY_NOT_FOUND: the cache has nothing to export. */
INLAY_NODISCARD inlay_status cache_file_export(const cli_common *common, const char *path, bool all,
                                               cache_file_result *out, inlay_diag *diag);
/* Imports such a file. Measurements are merged with those of the cache. For other files, an existing file of the same
 * name stays unless `replace` is set. A file that is damaged, of another version, or of another processor is rejected
 * as a whole. */
INLAY_NODISCARD inlay_status cache_file_import(const cli_common *common, const char *path, bool replace,
                                               cache_file_result *out, inlay_diag *diag);

/* The machine that such a file comes from. */
typedef struct cache_file_machine {
    char cpu[160];
    uint32_t threads; /* CPUs of the process that exported it; 0 = unknown */
} cache_file_machine;

/* Extracts the machine profile and the measurements of a file of any kind of machine to a temporary folder, which is
 * laid out like a cache. folder is [PATH_MAX]; unless it is "" afterwards, the caller removes it
 * (scratch_remove_folder), after a failure, too. */
INLAY_NODISCARD inlay_status cache_file_costs(const char *path, char *folder, cache_file_machine *out,
                                              inlay_diag *diag);

typedef struct cache_file_facts {
    uint32_t files, compiled, packed; /* all files; compiled regions and packed weights among them */
    uint64_t bytes;                   /* of the files */
} cache_file_facts;

/* Checks whether such a file could be imported here, from its head and its size: the format, the processor, the byte
 * order, the version of inlay, and that it is complete. It reads no contents and opens no session. The errors are those
 * of cache_file_import(). */
INLAY_NODISCARD inlay_status cache_file_check(const char *path, cache_file_facts *out, inlay_diag *diag);
#endif
