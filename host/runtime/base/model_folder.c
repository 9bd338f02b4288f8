#include "base/model_folder.h"
#include "base/cpus.h"
#include "inlay/check.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The ends of names by their variants, the most accurate ones first. */
static const struct variant {
    const char *end;
    bool has_float16;
} variants[] = {
    { "", false },      { "fp16", true },  { "quantized", false }, { "int8", false },
    { "uint8", false }, { "q4", false },   { "q4f16", true },      { "bnb4", false },
    { "q2", false },    { "q2f16", true }, { "q1", false },        { "q1f16", true },
};
enum { VARIANTS = sizeof variants / sizeof *variants, LISTED = 400 };

/* The names that Hugging Face's library for JavaScript has for two of them. */
static const char *end_of(const char *variant)
{
    return strcmp(variant, "fp32") == 0 ? "" : strcmp(variant, "q8") == 0 ? "quantized" : variant;
}

/* Bytes of NAME in NAME.onnx; 0: another name. */
static size_t stem_bytes(const char *name)
{
    const size_t bytes = strlen(name);

    return bytes > 5 && strcmp(name + bytes - 5, ".onnx") == 0 ? bytes - 5 : 0;
}

static bool begins_with(const char *name, const char *text)
{
    return strncmp(name, text, strlen(text)) == 0;
}

/* Cuts the end that names a variant. After "model", each end but "merged" does: model_O4, model_qint8_avx512. */
static void cut_variant(char *name)
{
    const char *end = strrchr(name, '_');

    if (begins_with(name, "model_") && !begins_with(name, "model_merged"))
        name[strlen("model")] = '\0';
    for (uint32_t i = 1; end != NULL && i < VARIANTS; i++)
        if (strcmp(end + 1, variants[i].end) == 0)
            name[end - name] = '\0';
}

static bool has_part(const model_folder *folder, const char *name)
{
    for (uint32_t i = 0; i < folder->count; i++)
        if (strcmp(folder->parts[i], name) == 0)
            return true;
    return false;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Adds the parts of the files in folder->path. */
static inlay_status list_parts(model_folder *folder, inlay_diag *diag)
{
    DIR *dir = opendir(folder->path);
    const struct dirent *entry;
    inlay_status status = INLAY_OK;

    while (dir != NULL && status == INLAY_OK && (entry = readdir(dir)) != NULL) {
        const size_t bytes = stem_bytes(entry->d_name);
        char name[MODEL_FOLDER_NAME];

        if (bytes == 0 || bytes >= sizeof name || entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)bytes, entry->d_name);
        cut_variant(name);
        if (has_part(folder, name))
            continue;
        INLAY_CHECK(folder->count <= MODEL_FOLDER_PARTS);
        if (folder->count == MODEL_FOLDER_PARTS)
            status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s has more than %d models; name the file of one",
                                folder->path, MODEL_FOLDER_PARTS);
        else
            memcpy(folder->parts[folder->count++], name, sizeof name);
    }
    if (dir != NULL)
        (void)closedir(dir);
    qsort(folder->parts, folder->count, sizeof *folder->parts, by_name);
    return status;
}

static void drop_part(model_folder *folder, const char *name)
{
    for (uint32_t i = 0; i < folder->count; i++)
        if (strcmp(folder->parts[i], name) == 0) {
            folder->count--;
            memmove(folder->parts[i], folder->parts[i + 1], (folder->count - i) * sizeof *folder->parts);
            return;
        }
}

/* Keeps the whole model alone, and of decoders the one that does all. */
static void drop_covered(model_folder *folder)
{
    static const char *const whole[] = { "model", "model_merged" };

    for (uint32_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (has_part(folder, whole[i])) {
            (void)snprintf(folder->parts[0], sizeof folder->parts[0], "%s", whole[i]);
            folder->count = 1;
        }
    if (!has_part(folder, "decoder_model_merged"))
        return;
    drop_part(folder, "decoder_model");
    drop_part(folder, "decoder_with_past_model");
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

inlay_status model_folder_read(const char *path, model_folder *out_folder, inlay_diag *diag)
{
    const size_t bytes = strlen(path);
    const char *const between = bytes > 0 && path[bytes - 1] == '/' ? "" : "/";
    inlay_status status = INLAY_OK;
    struct stat st;

    *out_folder = (model_folder){ .count = 0 };
    if (stat(path, &st) != 0)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode) || bytes + 32 > PATH_MAX)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s is not a folder", path);
    (void)snprintf(out_folder->path, PATH_MAX, "%s%sconfig.json", path, between);
    out_folder->is_published = is_file(out_folder->path);
    (void)snprintf(out_folder->path, PATH_MAX, "%s%sonnx", path, between);
    status = list_parts(out_folder, diag);
    if (status == INLAY_OK && out_folder->count == 0) {
        (void)snprintf(out_folder->path, PATH_MAX, "%.*s", (int)(bytes - (between[0] == '\0' && bytes > 1)), path);
        status = list_parts(out_folder, diag);
    }
    if (status == INLAY_OK && out_folder->count == 0)
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "%s has no .onnx file, nor has its subfolder onnx; name a model's file", path);
    drop_covered(out_folder);
    return status;
}

/* Writes the path of the file PART_END.onnx, or PART.onnx without an end. Returns false if there is no such file. */
static bool find_file(const model_folder *folder, uint32_t part, const char *end, char out_path[PATH_MAX])
{
    const int bytes = snprintf(out_path, PATH_MAX, "%s/%s%s%s.onnx", folder->path, folder->parts[part],
                               end[0] != '\0' ? "_" : "", end);

    return bytes > 0 && bytes < PATH_MAX && is_file(out_path);
}

/* Bytes of a model's file and of the files of its weights: FILE_data, FILE_data_1 ... */
static uint64_t size_of(const char *path)
{
    char weights[PATH_MAX + 32];
    uint64_t bytes = 0;
    struct stat st;

    if (stat(path, &st) == 0)
        bytes = (uint64_t)st.st_size;
    (void)snprintf(weights, sizeof weights, "%s_data", path);
    for (uint32_t i = 1; stat(weights, &st) == 0; i++) {
        bytes += (uint64_t)st.st_size;
        (void)snprintf(weights, sizeof weights, "%s_data_%u", path, i);
    }
    return bytes;
}

static bool cpu_converts_float16(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("avx2"); /* every CPU with AVX2 has F16C */
#else
    return true;
#endif
}

/* Chooses by size and CPU; false: the part has none of the known variants. */
static bool choose_known(const model_folder *folder, uint32_t part, char out_path[PATH_MAX])
{
    const uint64_t most = memory_allowed() / 2;
    const bool any = cpu_converts_float16();
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX];

    for (int pass = any; pass < 2; pass++) /* without float16, then with it */
        for (uint32_t i = 0; i < VARIANTS; i++) {
            uint64_t bytes;

            if ((pass == 0 && variants[i].has_float16) || !find_file(folder, part, variants[i].end, path))
                continue;
            bytes = size_of(path);
            if (bytes > most && bytes >= least)
                continue;
            memcpy(out_path, path, PATH_MAX);
            if (bytes <= most)
                return true;
            least = bytes;
        }
    return least != UINT64_MAX;
}

/* Lists the variants of a part in the folder, for messages. */
static void list_variants(const model_folder *folder, uint32_t part, char out[LISTED])
{
    const size_t bytes = strlen(folder->parts[part]);
    DIR *dir = opendir(folder->path);
    const struct dirent *entry;
    size_t at = 0;

    out[0] = '\0';
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const size_t stem = stem_bytes(entry->d_name);
        const char *end = entry->d_name + bytes;
        char name[MODEL_FOLDER_NAME];
        int more;

        if (stem == 0 || stem >= sizeof name)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)stem, entry->d_name);
        cut_variant(name);
        if (strcmp(name, folder->parts[part]) != 0)
            continue;
        more = snprintf(out + at, LISTED - at, "%s%.*s", at > 0 ? ", " : "", stem > bytes ? (int)(stem - bytes - 1) : 4,
                        stem > bytes ? end + 1 : "fp32");
        if (more < 0 || at + (size_t)more >= LISTED) {
            out[at] = '\0';
            break;
        }
        at += (size_t)more;
    }
    if (dir != NULL)
        (void)closedir(dir);
}

inlay_status model_folder_choose(const model_folder *folder, uint32_t part, const char *variant,
                                 char out_path[PATH_MAX], inlay_diag *diag)
{
    char listed[LISTED];

    INLAY_CHECK(part < folder->count);
    if (variant[0] != '\0' ? strchr(variant, '/') == NULL && find_file(folder, part, end_of(variant), out_path)
                           : choose_known(folder, part, out_path))
        return INLAY_OK;
    list_variants(folder, part, listed);
    if (variant[0] != '\0')
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s has no variant '%.60s' of %s; it has: %s", folder->path, variant,
                          folder->parts[part], listed);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: name a variant of %s: %s", folder->path, folder->parts[part],
                      listed);
}

inlay_status model_folder_find(const char *path, const char *variant, char out_path[PATH_MAX], inlay_diag *diag)
{
    model_folder folder;
    inlay_status status;

    status = model_folder_read(path, &folder, diag);
    if (!folder.is_published && folder.path[0] != '\0')
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "%s is a directory without the config.json of a published model; name the .onnx file in it",
                          path);
    if (status == INLAY_OK && folder.count > 1) {
        char names[LISTED] = "";

        for (uint32_t i = 0; i < folder.count; i++)
            (void)snprintf(names + strlen(names), LISTED - strlen(names), "%s%s", i > 0 ? ", " : "", folder.parts[i]);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has several models, %s: name the file of one%s",
                          folder.path, names,
                          has_part(&folder, "encoder_model")
                              ? "; an encoder and its decoder are two models, whose texts are not generated"
                              : "");
    }
    return status == INLAY_OK ? model_folder_choose(&folder, 0, variant, out_path, diag) : status;
}
