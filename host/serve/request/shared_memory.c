#include "serve/request/shared_memory.h"
#include "inlay/check.h"
#include "codecs/datatype.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_REGIONS = 1024, NAME_BYTES = 256 };

struct region {
    char name[NAME_BYTES], key[NAME_BYTES];
    uint64_t offset, bytes;
    int fd;
};

struct shared_memory {
    pthread_rwlock_t lock;  /* guards the list; held for reading while a region is used */
    struct region *regions; /* [count] */
    uint32_t count;
};

static inlay_status disabled(inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "shared memory is not enabled (shared_memory is 0); send tensors in the request");
}

inlay_status shared_memory_create(struct shared_memory **out_shared, inlay_diag *diag)
{
    *out_shared = calloc(1, sizeof **out_shared);
    if (*out_shared == NULL)
        return no_memory(diag, "for shared memory");
    (void)pthread_rwlock_init(&(*out_shared)->lock, NULL);
    return INLAY_OK;
}

void shared_memory_destroy(struct shared_memory *shared)
{
    if (shared == NULL)
        return;
    for (uint32_t i = 0; i < shared->count; i++)
        (void)close(shared->regions[i].fd);
    (void)pthread_rwlock_destroy(&shared->lock);
    free(shared->regions);
    free(shared);
}

/* The caller holds the lock. */
static struct region *find(const struct shared_memory *shared, const char *name)
{
    for (uint32_t i = 0; i < shared->count; i++)
        if (strcmp(shared->regions[i].name, name) == 0)
            return &shared->regions[i];
    return NULL;
}

/* Whether the object has the bytes, and is a file. */
static bool has_bytes(int fd, uint64_t offset, uint64_t bytes)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 && offset <= (uint64_t)st.st_size &&
           bytes <= (uint64_t)st.st_size - offset;
}

/* The caller holds the lock for writing. */
static inlay_status add_region(struct shared_memory *shared, const struct region *region, inlay_diag *diag)
{
    if (find(shared, region->name) != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "shared memory region '%s' is registered already",
                          region->name);
    if (shared->count == MAX_REGIONS)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "more than %d regions of shared memory", MAX_REGIONS);
    if (!LIST_GROW(shared->regions, shared->count))
        return no_memory(diag, "for shared memory");
    shared->regions[shared->count++] = *region;
    return INLAY_OK;
}

inlay_status shared_memory_register(struct shared_memory *shared, const char *name, const char *key, uint64_t offset,
                                    uint64_t bytes, inlay_diag *diag)
{
    struct region region = { .offset = offset, .bytes = bytes };
    inlay_status status;

    if (shared == NULL)
        return disabled(diag);
    if (name[0] == '\0' || strlen(name) >= sizeof region.name || key[0] != '/' || strchr(key + 1, '/') != NULL ||
        strlen(key) >= sizeof region.key || bytes == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "a region needs a name, a key (\"/NAME\" of shm_open) and a byte_size above 0");
    (void)snprintf(region.name, sizeof region.name, "%s", name);
    (void)snprintf(region.key, sizeof region.key, "%s", key);
    region.fd = shm_open(key, O_RDWR | O_CLOEXEC, 0);
    if (region.fd < 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "cannot open the shared memory '%s': %s", key, strerror(errno));
    if (!has_bytes(region.fd, offset, bytes)) {
        (void)close(region.fd);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the shared memory '%s' is smaller than offset + byte_size",
                          key);
    }
    (void)pthread_rwlock_wrlock(&shared->lock);
    status = add_region(shared, &region, diag);
    (void)pthread_rwlock_unlock(&shared->lock);
    if (status != INLAY_OK)
        (void)close(region.fd);
    return status;
}

inlay_status shared_memory_unregister(struct shared_memory *shared, const char *name, inlay_diag *diag)
{
    if (shared == NULL)
        return disabled(diag);
    (void)pthread_rwlock_wrlock(&shared->lock);
    for (uint32_t i = shared->count; i-- > 0;)
        if (name[0] == '\0' || strcmp(shared->regions[i].name, name) == 0) {
            (void)close(shared->regions[i].fd);
            shared->regions[i] = shared->regions[--shared->count];
        }
    (void)pthread_rwlock_unlock(&shared->lock);
    return INLAY_OK;
}

inlay_status shared_memory_each(struct shared_memory *shared, const char *name,
                                void (*each)(void *user, const char *name, const char *key, uint64_t offset,
                                             uint64_t bytes),
                                void *user, inlay_diag *diag)
{
    uint32_t found = 0;

    if (shared == NULL)
        return disabled(diag);
    (void)pthread_rwlock_rdlock(&shared->lock);
    for (uint32_t i = 0; i < shared->count; i++) {
        const struct region *region = &shared->regions[i];

        if (name[0] != '\0' && strcmp(region->name, name) != 0)
            continue;
        each(user, region->name, region->key, region->offset, region->bytes);
        found++;
    }
    (void)pthread_rwlock_unlock(&shared->lock);
    return found > 0 || name[0] == '\0'
               ? INLAY_OK
               : inlay_fail(diag, INLAY_NOT_FOUND, "no shared memory region '%s' is registered", name);
}

/* The region of a tensor, which is inside it. The caller holds the lock. */
static inlay_status find_part(const struct shared_memory *shared, const infer_region *part, const char *tensor,
                              const struct region **out, inlay_diag *diag)
{
    *out = find(shared, part->name);
    if (*out == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "'%s': no shared memory region '%s' is registered", tensor,
                          part->name);
    if (part->offset > (*out)->bytes || part->bytes > (*out)->bytes - part->offset)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "'%s': the shared memory region '%s' has only %llu bytes",
                          tensor, part->name, (unsigned long long)(*out)->bytes);
    return INLAY_OK;
}

uint64_t shared_memory_input_bytes(const infer_request *request)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < request->input_count; i++) {
        uint64_t bytes = request->inputs[i].region.name != NULL ? request->inputs[i].region.bytes : 0;

        sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
    }
    return sum;
}

static inlay_status load_input(const struct shared_memory *shared, infer_request *request, infer_tensor *tensor,
                               inlay_diag *diag)
{
    const infer_region *part = &tensor->region;
    const struct region *region;
    inlay_status status = find_part(shared, part, tensor->name, &region, diag);

    if (status != INLAY_OK)
        return status;
    tensor->buffer = aligned_alloc(64, (part->bytes / 64 + 1) * 64); /* at least one byte */
    if (tensor->buffer == NULL)
        return no_memory(diag, "for input '%s'", tensor->name);
    for (uint64_t done = 0; done < part->bytes;) {
        ssize_t count =
            pread(region->fd, tensor->buffer + done, part->bytes - done, (off_t)(region->offset + part->offset + done));

        if (count <= 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s': the shared memory '%s' cannot be read",
                              tensor->name, region->key);
        done += (uint64_t)count;
    }
    return infer_set_raw(request, tensor, tensor->buffer, part->bytes, diag);
}

inlay_status shared_memory_load(struct shared_memory *shared, infer_request *request, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    bool any = false;

    for (uint32_t i = 0; i < request->input_count; i++)
        any |= request->inputs[i].region.name != NULL;
    for (uint32_t i = 0; i < request->output_count; i++)
        any |= request->outputs[i].region.name != NULL;
    if (!any)
        return INLAY_OK;
    if (shared == NULL)
        return disabled(diag);
    (void)pthread_rwlock_rdlock(&shared->lock);
    for (uint32_t i = 0; status == INLAY_OK && i < request->input_count; i++)
        if (request->inputs[i].region.name != NULL)
            status = load_input(shared, request, &request->inputs[i], diag);
    (void)pthread_rwlock_unlock(&shared->lock);
    return status;
}

static inlay_status write_all(const struct region *region, uint64_t offset, const char *data, uint64_t bytes,
                              const char *output, inlay_diag *diag)
{
    bool good = has_bytes(region->fd, offset, bytes);

    for (uint64_t done = 0; good && done < bytes;) {
        ssize_t count = pwrite(region->fd, data + done, bytes - done, (off_t)(offset + done));

        good = count > 0;
        done += good ? (uint64_t)count : 0;
    }
    return good ? INLAY_OK
                : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "output '%s': the shared memory '%s' cannot be written",
                             output, region->key);
}

static inlay_status store_output(const struct shared_memory *shared, infer_region *part, const infer_output *output,
                                 inlay_diag *diag)
{
    struct strbuf raw = { .data = NULL };
    uint64_t bytes = datatype_raw_bytes(output->dtype, output->count, output->data);
    const struct region *region;
    inlay_status status = find_part(shared, part, output->name, &region, diag);

    if (status != INLAY_OK)
        return status;
    if (bytes > part->bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "output '%s' has %llu bytes, but its shared_memory_byte_size is %llu", output->name,
                          (unsigned long long)bytes, (unsigned long long)part->bytes);
    if (output->dtype == INLAY_STRING)
        datatype_write_raw(&raw, output->dtype, output->count, output->data);
    status = raw.failed ? no_memory(diag, "for output '%s'", output->name)
                        : write_all(region, region->offset + part->offset,
                                    output->dtype == INLAY_STRING ? raw.data : output->data, bytes, output->name, diag);
    strbuf_deinit(&raw);
    part->bytes = bytes;
    return status;
}

inlay_status shared_memory_store(struct shared_memory *shared, infer_request *request, const infer_output *outputs,
                                 uint32_t count, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (shared == NULL) /* shared_memory_load() has refused requests that need it */
        return INLAY_OK;
    (void)pthread_rwlock_rdlock(&shared->lock);
    for (uint32_t i = 0; status == INLAY_OK && i < count && i < request->output_count; i++)
        if (request->outputs[i].region.name != NULL)
            status = store_output(shared, &request->outputs[i].region, &outputs[i], diag);
    (void)pthread_rwlock_unlock(&shared->lock);
    return status;
}
