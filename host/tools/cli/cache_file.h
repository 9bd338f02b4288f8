/* cli/cache_file.h - the contents of a cache as one file, which other machines of the same kind can import. Files of
 * several kinds of machines can be merged into one. cache_part.h describes the format. */
#ifndef CLI_CACHE_FILE_H
#define CLI_CACHE_FILE_H
#include "cli/cli.h"

typedef struct cache_file_result {
    uint32_t files; /* exported or imported; of merge: parts in the result */
    uint32_t kept;  /* not imported, because the cache already has a file of that name; of merge: repeated parts */
    uint64_t bytes; /* size of `files` */
} cache_file_result;

/* Writes the machine profile and the measurements to path; with `all` also packed weights and compiled regions.
 * INLAY_NOT_FOUND: the cache has nothing to export. */
INLAY_NODISCARD inlay_status cache_file_export(const cli_common *common, const char *path, bool all,
                                               cache_file_result *out, inlay_diag *diag);
/* Imports the parts of such a file that are for this kind of machine. Measurements are merged with those of the cache.
 * For other files, an existing file of the same name stays unless `replace` is set. A file that is damaged, of another
 * version, or without a part for this processor is rejected as a whole. */
INLAY_NODISCARD inlay_status cache_file_import(const cli_common *common, const char *path, bool replace,
                                               cache_file_result *out, inlay_diag *diag);

/* The machine that such a file comes from. */
typedef struct cache_file_machine {
    char cpu[160];
    uint32_t threads; /* CPUs of the process that exported it; 0 = unknown */
} cache_file_machine;

/* Extracts the machine profile and the measurements of a file with one part to a temporary folder, which is laid out
 * like a cache. The part may be of any kind of machine. folder is [PATH_MAX]; unless it is "" afterwards, the caller
 * removes it (scratch_remove_folder), after a failure, too. */
INLAY_NODISCARD inlay_status cache_file_costs(const char *path, char *folder, cache_file_machine *out,
                                              inlay_diag *diag);

enum { CACHE_FILE_PARTS = 32 };

/* What a file has for one kind of machine. */
typedef struct cache_file_part {
    cache_file_machine machine;
    char version[40];                 /* of inlay */
    uint32_t files, compiled, packed; /* all files; compiled regions and packed weights among them */
    uint64_t bytes;                   /* of the files */
    bool valid;                       /* on this machine */
} cache_file_part;

typedef struct cache_file_facts {
    cache_file_part parts[CACHE_FILE_PARTS];
    uint32_t part_count;
} cache_file_facts;

/* Lists the parts of such a file and checks whether it could be imported here, from the heads and the size: the format,
 * the processor, the byte order, the version of inlay, and that it is complete. It reads no contents and opens no
 * session. The errors are those of cache_file_import(). */
INLAY_NODISCARD inlay_status cache_file_check(const char *path, cache_file_facts *out, inlay_diag *diag);
/* Writes the parts of several such files as one file; a part that occurs twice is written once. A damaged file is
 * rejected; files of other kinds of machines and versions are accepted. */
INLAY_NODISCARD inlay_status cache_file_merge(const char *const *paths, uint32_t count, const char *output,
                                              cache_file_result *out, inlay_diag *diag);
#endif
