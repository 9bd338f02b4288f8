#include "cli/cache_part.h"
#include "base/json_text.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "partition/cost/cost_profile.h"
#include "inlay/inlay.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_HEAD = 64 << 20 }; /* bytes */
/* Limit for all files of a part together. */
#define MOST_BYTES (UINT64_C(64) << 30)
const char cache_part_measured[] = "costs/measured.bin";

const char *cache_part_byte_order(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big";
}

bool cache_part_has_costs(const char *name)
{
    return strcmp(name, cache_part_measured) == 0 || strcmp(name, "costs/machine.json") == 0;
}

void cache_part_deinit(cache_part *part)
{
    json_decref(part->head);
    part->head = NULL;
}

/* Reads the first line of a part. */
static inlay_status read_line(FILE *from, const char *path, cache_part *part, unsigned long *out_head_bytes,
                              inlay_diag *diag)
{
    int version = 0;

    part->line[CACHE_PART_LINE] = '\0';
    if (fread(part->line, 1, CACHE_PART_LINE, from) != CACHE_PART_LINE ||
        sscanf(part->line, CACHE_PART_MAGIC " %d", &version) != 1)
        return part->end > 0
                   ? inlay_fail(diag, INLAY_INVALID_MODEL,
                                "%.300s: damaged: no part begins at byte %llu; copy the file again", path,
                                (unsigned long long)part->end)
                   : inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: not a file written by inlay cache export", path);
    if (version != CACHE_PART_VERSION)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "%.300s: version %d of the file format; this inlay reads version %d", path, version,
                          CACHE_PART_VERSION);
    if (sscanf(part->line, CACHE_PART_MAGIC " %d %64[0-9a-f] %lu", &version, part->sum, out_head_bytes) != 3 ||
        *out_head_bytes > MOST_HEAD)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: damaged: the first line is invalid", path);
    return INLAY_OK;
}

static inlay_status read_head(FILE *from, const char *path, unsigned long bytes, json_t **out_head, inlay_diag *diag)
{
    json_error_t error = { .line = 0 };
    char *text = malloc(bytes + 1);

    *out_head = NULL;
    if (text == NULL)
        return no_memory(diag, "for the head of %.300s", path);
    if (fread(text, 1, bytes + 1, from) == bytes + 1)
        *out_head = json_loadb(text, bytes, 0, &error);
    free(text);
    if (*out_head == NULL && json_error_code(&error) == json_error_out_of_memory)
        return no_memory(diag, "for the head of %.300s", path);
    return *out_head != NULL ? INLAY_OK
                             : inlay_fail(diag, INLAY_INVALID_MODEL,
                                          "%.300s: damaged: the head is not valid JSON; copy the file again", path);
}

/* Checks the list of files and adds up their sizes. */
static inlay_status count_files(cache_part *part, const char *path, inlay_diag *diag)
{
    const json_t *files = json_object_get(part->head, "files"), *file;
    size_t i;

    part->compiled = part->packed = 0;
    part->bytes = 0;
    if (json_array_size(files) > CACHE_PART_MOST_FILES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%.200s has more than %d files", path, CACHE_PART_MOST_FILES);
    json_array_foreach(files, i, file) {
        const char *name = json_text_of(file, "name"), *slash = strchr(name, '/');
        const json_int_t size = json_integer_value(json_object_get(file, "bytes"));
        const bool compiled = strncmp(name, "compiled/", 9) == 0, packed = strncmp(name, "packs/", 6) == 0;

        if ((!compiled && !packed && !cache_part_has_costs(name)) || slash == NULL || slash[1] == '.' ||
            slash[1] == '\0' || strchr(slash + 1, '/') != NULL || strlen(name) > 220 || size < 0 ||
            (part->bytes += (uint64_t)size) > MOST_BYTES)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "%.200s: '%.100s' is not a file of a cache", path, name);
        part->compiled += compiled;
        part->packed += packed;
    }
    return INLAY_OK;
}

inlay_status cache_part_next(FILE *from, const char *path, cache_part *part, inlay_diag *diag)
{
    unsigned long head_bytes = 0;
    struct stat facts;
    inlay_status status;

    cache_part_deinit(part);
    if (fstat(fileno(from), &facts) != 0 || (part->end > 0 && fseeko(from, (off_t)part->end, SEEK_SET) != 0))
        return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    if (part->end > 0 && part->end == (uint64_t)facts.st_size)
        return INLAY_OK;
    INLAY_TRY(read_line(from, path, part, &head_bytes, diag));
    INLAY_TRY(read_head(from, path, head_bytes, &part->head, diag));
    INLAY_TRY(count_files(part, path, diag));
    part->begin = part->end;
    part->contents = part->begin + CACHE_PART_LINE + head_bytes + 1;
    part->end = part->contents + part->bytes;
    if ((uint64_t)facts.st_size < part->end)
        status = inlay_fail(diag, INLAY_INVALID_MODEL,
                            "%.300s: damaged: has %llu bytes and should have %llu; copy the file again", path,
                            (unsigned long long)facts.st_size, (unsigned long long)part->end);
done:
    if (status != INLAY_OK)
        cache_part_deinit(part);
    return status;
}

inlay_status cache_part_copy(FILE *from, const char *path, const cache_part *part, FILE *to, inlay_diag *diag)
{
    uint64_t left = part->end - part->begin - CACHE_PART_LINE;
    struct sha256 sha256;
    char block[65536], sum[65];

    sha256_init(&sha256);
    if (to != NULL)
        (void)fwrite(part->line, 1, CACHE_PART_LINE, to);
    if (fseeko(from, (off_t)(part->begin + CACHE_PART_LINE), SEEK_SET) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
    while (left > 0) {
        const size_t got = fread(block, 1, left < sizeof block ? (size_t)left : sizeof block, from);

        if (got == 0)
            break; /* the checksum will be wrong */
        sha256_update(&sha256, block, got);
        if (to != NULL)
            (void)fwrite(block, 1, got, to);
        left -= got;
    }
    sha256_hex(&sha256, sum);
    if (strcmp(sum, part->sum) != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%.300s: damaged: wrong checksum; copy the file again", path);
    return fseeko(from, (off_t)part->contents, SEEK_SET) == 0
               ? INLAY_OK
               : inlay_fail(diag, INLAY_IO_ERROR, "%.300s: %s", path, strerror(errno));
}

inlay_status cache_part_check(const cache_part *part, const char *path, bool elsewhere, inlay_diag *diag)
{
    char cpu[160];

    profile_cpu(cpu, sizeof cpu);
    if (!elsewhere && strcmp(json_text_of(part->head, "cpu"), cpu) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%.200s was exported on another machine, '%.100s'; this one is '%.100s'", path,
                          json_text_of(part->head, "cpu"), cpu);
    if (strcmp(json_text_of(part->head, "order"), cache_part_byte_order()) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s was exported on a machine with the other byte order", path);
    if (!elsewhere && part->compiled + part->packed > 0 &&
        strcmp(json_text_of(part->head, "inlay"), inlay_version()) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "%.200s has packed weights of inlay %.40s; this is inlay %s: export it again, or without "
                          "--all",
                          path, json_text_of(part->head, "inlay"), inlay_version());
    return INLAY_OK;
}
