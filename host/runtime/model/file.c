/* model/file.c - maps files, and opens external data. */
#include "base/memory.h"
#include "base/output.h"
#include "base/pages.h"
#include "base/path.h"
#include "model/load.h"
#include "model/packed.h"
#include "inlay/check.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limit for files that cannot be mapped, such as pipes. */
#define MAX_PIPED_BYTES (UINT64_C(4) << 30)
enum { READ_BYTES = 65536 };

static inlay_status read_all(int fd, file_map *out, inlay_diag *diag)
{
    uint8_t *bytes = NULL;
    size_t count = 0;

    for (;;) {
        ssize_t got;

        if (count > MAX_PIPED_BYTES - READ_BYTES || !list_reserve(&bytes, count, READ_BYTES, 1)) {
            free(bytes);
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory while reading a pipe; save it as a file");
        }
        got = read(fd, bytes + count, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(bytes);
            return inlay_fail(diag, INLAY_IO_ERROR, "cannot be read: %s", strerror(errno));
        }
        if (got == 0)
            break;
        count += (size_t)got;
    }
    *out = (file_map){ .bytes = bytes, .count = count };
    return INLAY_OK;
}

/* Maps a file at an address that is not a multiple of a large page. Otherwise the system may map 2 MiB for each access
 * to a part of the file that is in its cache as a large page, and the headers of tensors between the weights bring most
 * of the model into memory. */
static void *map_file(int fd, size_t bytes)
{
#if defined(__linux__)
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = bytes + PAGES_LARGE + page;
    char *free_range;
    void *address;
    size_t skipped;

    if (bytes < PAGES_LARGE || room < bytes)
        return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    free_range = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free_range == MAP_FAILED)
        return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    skipped = (uintptr_t)free_range % PAGES_LARGE == 0 ? page : 0;
    address = mmap(free_range + skipped, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (address == MAP_FAILED) {
        (void)munmap(free_range, room);
        return MAP_FAILED;
    }
    bytes = (bytes + page - 1) / page * page;
    if (skipped > 0)
        (void)munmap(free_range, skipped);
    (void)munmap(free_range + skipped + bytes, room - skipped - bytes);
    return address;
#else
    return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
#endif
}

/* Reads a regular file, which must stay as it is meanwhile. The block is aligned like a mapping, since locations of
 * external data are. */
static inlay_status read_regular(int fd, const struct stat *st, file_map *out, inlay_diag *diag)
{
    const size_t bytes = (size_t)st->st_size;
    const file_id before = file_id_of(st);
    struct stat now;
    file_id after;
    void *block = NULL;
    size_t at = 0;

    if (posix_memalign(&block, (size_t)sysconf(_SC_PAGESIZE), bytes) != 0)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    while (at < bytes) {
        const ssize_t got = pread(fd, (char *)block + at, bytes - at, (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(block);
            return inlay_fail(diag, INLAY_IO_ERROR, "cannot be read: %s", strerror(errno));
        }
        if (got == 0)
            break;
        at += (size_t)got;
    }
    if (fstat(fd, &now) != 0)
        now = (struct stat){ 0 };
    after = file_id_of(&now);
    if (at < bytes || after.bytes != before.bytes ||
        memcmp(after.modified, before.modified, sizeof after.modified) != 0) {
        free(block);
        return inlay_fail(diag, INLAY_IO_ERROR, "was written to while it was read; load it again when it is complete");
    }
    *out = (file_map){ .bytes = block, .count = bytes, .stored = bytes };
    return INLAY_OK;
}

inlay_status file_map_fd(int fd, uint64_t copy_bytes, file_map *out, inlay_diag *diag)
{
    struct stat st;
    void *address;

    *out = (file_map){ 0 };
    if (fstat(fd, &st) != 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return inlay_fail(diag, INLAY_IO_ERROR, "is a directory; name the .onnx file in it");
    if (!S_ISREG(st.st_mode))
        return read_all(fd, out, diag);
    output_note_read(fd);
    if (st.st_size == 0)
        return INLAY_OK;
    if ((uint64_t)st.st_size <= copy_bytes)
        return read_regular(fd, &st, out, diag);
    address = map_file(fd, (size_t)st.st_size);
    if (address == MAP_FAILED)
        return inlay_fail(diag, errno == ENOMEM ? INLAY_OUT_OF_MEMORY : INLAY_IO_ERROR, "cannot be mapped: %s",
                          strerror(errno));
    *out = (file_map){ .bytes = address,
                       .count = (size_t)st.st_size,
                       .stored = (uint64_t)st.st_size,
                       .watch = mapped_file_watch(address, (size_t)st.st_size, fd, &st) };
    if (out->watch == NULL) {
        (void)munmap(address, (size_t)st.st_size);
        *out = (file_map){ 0 };
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    }
    return INLAY_OK;
}

inlay_status file_map_path(const char *path, uint64_t copy_bytes, file_map *out, inlay_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    inlay_status status;

    *out = (file_map){ 0 };
    if (fd < 0)
        return inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_IO_ERROR, "cannot be opened: %s",
                          strerror(errno));
    status = file_map_fd(fd, copy_bytes, out, diag);
    (void)close(fd);
    return status;
}

void file_unmap(file_map *map)
{
    mapped_file_forget(map->watch);
    if (map->watch != NULL)
        (void)munmap((void *)(uintptr_t)map->bytes, map->count);
    else if (!map->borrowed)
        free((void *)(uintptr_t)map->bytes);
    *map = (file_map){ 0 };
}

inlay_status file_transfer(file_map *map, graph_model *model, inlay_diag *diag)
{
    void *address = (void *)(uintptr_t)map->bytes;
    inlay_status status = INLAY_OK;

    if (address != NULL && !map->borrowed)
        status = map->watch != NULL ? graph_blob_map(model, address, map->count, map->watch)
                                    : graph_blob_adopt(model, address, map->count);
    if (status != INLAY_OK) {
        file_unmap(map);
        return inlay_fail(diag, status, "out of memory");
    }
    model->source.stored_bytes += map->stored;
    model->source.copied_bytes += map->watch == NULL ? map->stored : 0;
    return INLAY_OK;
}

/* model_load_options.copy_bytes without the bytes of files that the model has read already. options may be NULL. */
static uint64_t file_copy_left(const model_load_options *options, const graph_model *model)
{
    const uint64_t bytes = options != NULL ? options->copy_bytes : 0;

    return bytes > model->source.copied_bytes ? bytes - model->source.copied_bytes : 0;
}

/* The part of path below the folder; NULL: it is not below. */
static char *below(char *path, const char *folder)
{
    const size_t bytes = strcmp(folder, "/") == 0 ? 0 : strlen(folder);

    return strncmp(path, folder, bytes) == 0 && path[bytes] == '/' ? path + bytes + 1 : NULL;
}

/* The folder of the model's real file, if the model is named by a symbolic link: the cache of Hugging Face links a
 * model and its external data to files of one folder. As in ONNX Runtime, links may end there. */
static bool real_folder(const external_files *files, char *folder)
{
    const bool has_own = files->options == NULL || files->options->external_dir == NULL;
    char *slash = has_own && files->model->source.path != NULL && realpath(files->model->source.path, folder) != NULL
                      ? strrchr(folder, '/')
                      : NULL;

    if (slash != NULL)
        slash[slash == folder] = '\0';
    return slash != NULL;
}

/* Resolves all symbolic links of location. path (PATH_MAX bytes) receives the result relative to the folder, which is
 * opened as *out_dir. open_below() then opens this path without following links, so that it fails if a link has
 * replaced a file or folder meanwhile. */
static inlay_status resolve(const external_files *files, const char *location, char *path, int *out_dir,
                            inlay_diag *diag)
{
    char dir[PATH_MAX], joined[PATH_MAX], *inside;
    int length;

    *out_dir = -1;
    if (realpath(files->dir[0] == '\0' ? "." : files->dir, dir) == NULL)
        return inlay_fail(diag, INLAY_IO_ERROR, "the folder of external data '%.200s' cannot be opened: %s", files->dir,
                          strerror(errno));
    length = snprintf(joined, sizeof joined, "%s/%s", dir, location);
    if (length < 0 || (size_t)length >= sizeof joined)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "the location of external data has more than %d bytes with its folder: '%.100s...'",
                          PATH_MAX - 1, location);
    if (realpath(joined, path) == NULL && errno == ENOENT && strchr(location, '\\') != NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND,
                          "external file '%.200s' is not in '%.100s': its location has a backslash, which separates "
                          "folders on Windows only; save the model with '/' in its locations",
                          location, dir);
    if (realpath(joined, path) == NULL)
        return inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_IO_ERROR,
                          "external file '%.200s' cannot be opened in '%.100s': %s; put it into the model's folder",
                          location, dir, strerror(errno));
    inside = below(path, dir);
    if (inside == NULL && real_folder(files, joined) && (inside = below(path, joined)) != NULL)
        memcpy(dir, joined, strlen(joined) + 1);
    if (inside == NULL)
        return inlay_fail(
            diag, INLAY_INVALID_MODEL,
            "external file '%.200s' is a symbolic link that leaves the folder '%.100s'; copy the file there", location,
            dir);
    memmove(path, inside, strlen(inside) + 1);
    *out_dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*out_dir < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "the folder of external data '%.200s' cannot be opened: %s", dir,
                          strerror(errno));
    return INLAY_OK;
}

/* Opens path relative to dir without following any link. Closes dir. */
static int open_below(int dir, char *path)
{
    char *rest = path;

    while (dir >= 0) {
        char *slash = strchr(rest, '/');
        int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (slash != NULL ? O_DIRECTORY : O_NONBLOCK), next, error;

        if (slash != NULL)
            *slash = '\0';
        next = openat(dir, rest, flags);
        error = errno;
        (void)close(dir);
        errno = error;
        if (slash == NULL)
            return next;
        dir = next;
        rest = slash + 1;
    }
    return -1;
}

static bool leaves_folder(const char *location)
{
    if (path_is_absolute(location))
        return true;
    for (const char *part = location; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return true;
    }
    return false;
}

static inlay_status open_external(const external_files *files, const char *location, file_map *out, inlay_diag *diag)
{
    char path[PATH_MAX];
    int dir, fd;
    struct stat st;
    inlay_status status;

    if (files->dir == NULL)
        return inlay_fail(
            diag, INLAY_INVALID_ARGUMENT,
            "is stored in external file '%.200s', but a model from memory has no folder; set external_dir, or give the "
            "contents of the file",
            location);
    if (location[0] == '\0')
        return inlay_fail(diag, INLAY_INVALID_MODEL, "external data has no location");
    if (leaves_folder(location))
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "external file '%.200s' would be outside the model's folder; use a path relative to it "
                          "without '..'",
                          location);
    status = resolve(files, location, path, &dir, diag);
    if (status != INLAY_OK)
        return status;
    fd = open_below(dir, path);
    if (fd < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "external file '%.200s' cannot be opened: %s", location,
                          strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "external file '%.200s' is not a regular file", location);
    else
        status = file_map_fd(fd, file_copy_left(files->options, files->model), out, diag);
    (void)close(fd);
    return status;
}

/* A location without "./" at its beginning. */
static const char *plain_location(const char *location)
{
    while (strncmp(location, "./", 2) == 0)
        location += 2;
    return location;
}

/* A file that the program has in memory. */
static bool find_in_memory(const model_load_options *options, const char *location, file_map *out)
{
    for (uint32_t i = 0; options != NULL && i < options->file_count; i++) {
        if (strcmp(plain_location(options->files[i].location), plain_location(location)) != 0)
            continue;
        *out = (file_map){ .bytes = options->files[i].bytes, .count = options->files[i].count, .borrowed = true };
        return true;
    }
    return false;
}

/* Replaces the mapping of a packed file with the decompressed contents. */
static inlay_status unpack(const char *location, file_map *map, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    void *raw;
    size_t bytes;
    inlay_status status;

    if (!is_packed_file(map->bytes, map->count))
        return INLAY_OK;
    status = packed_open(map->bytes, map->count, &raw, &bytes, &why);
    file_unmap(map);
    if (status != INLAY_OK)
        return inlay_fail(diag, status, "packed external file '%.200s': %.300s", location, why.text);
    *map = (file_map){ .bytes = raw, .count = bytes };
    return INLAY_OK;
}

static const graph_external *find_recorded(const graph_model *model, const char *location)
{
    const graph_external *external = model != NULL ? model->source.externals : NULL;

    while (external != NULL && strcmp(external->location, location) != 0)
        external = external->next;
    return external;
}

bool file_record(graph_model *model, const char *location, const void *bytes, size_t count)
{
    graph_external *external = arena_alloc(&model->arena, sizeof *external);

    if (external == NULL)
        return false;
    *external = (graph_external){ .next = model->source.externals,
                                  .location = arena_string(&model->arena, location),
                                  .bytes = bytes,
                                  .count = count };
    model->source.externals = external;
    return external->location != NULL;
}

inlay_status external_open(external_files *files, const char *location, file_map *out, inlay_diag *diag)
{
    size_t bytes = strlen(location);
    uint32_t found = names_find(&files->index, location, bytes);
    const graph_external *external;
    const char *key;
    inlay_status status;

    if (found != NAMES_NONE) {
        INLAY_CHECK(found < files->count);
        *out = files->maps[found];
        return INLAY_OK;
    }
    external = find_recorded(files->model->source.base, location);
    if (external == NULL)
        external = find_recorded(files->model, location);
    if (external != NULL) {
        *out = (file_map){ .bytes = external->bytes, .count = external->count };
        return INLAY_OK;
    }
    status = find_in_memory(files->options, location, out) ? INLAY_OK : open_external(files, location, out, diag);
    if (status == INLAY_OK)
        status = unpack(location, out, diag);
    if (status != INLAY_OK)
        return status;
    status = file_transfer(out, files->model, diag);
    if (status != INLAY_OK)
        return status;
    key = arena_string(&files->scratch, location);
    if (!LIST_GROW(files->maps, files->count) || key == NULL ||
        !file_record(files->model, location, out->bytes, out->count) ||
        !names_add(&files->index, key, bytes, files->count, NULL))
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    files->maps[files->count++] = *out;
    if (files->options != NULL && files->options->each_external != NULL)
        files->options->each_external(files->options->external_user, location);
    return INLAY_OK;
}

void external_deinit(external_files *files)
{
    names_deinit(&files->index);
    arena_deinit(&files->scratch);
    free(files->maps);
    files->maps = NULL;
}
