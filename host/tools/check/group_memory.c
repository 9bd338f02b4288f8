/* Device buffers at their limits: requests that are too large, hints of later hosts, copies of different sizes,
 * mappings of a part of a buffer, and imported file descriptors. */
#include "base/provider_calls.h"
#include "check/harness.h"
#include "check/process.h"
#include "threads/fence.h"
#include "inlay/check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 1 << 16, QUARTER = BYTES / 4, PART = QUARTER - 40, FEW = 8, COPIES = 3, OLD = 0x11, NEW = 0x77 };
enum { MOST_CHUNKS = 6, LEAST_CHUNK = 1 << 20, MOST_CHUNK = 256 << 20, CAPACITY_MS = 1000, FEWER_ROUNDS = 5 };

struct memory_test {
    struct check *check;
    device_link link;
    uint64_t alignment;
    uint32_t flags;        /* of the domain */
    uint64_t memory_bytes; /* likewise; 0: not known */
    bool failed;
    uint8_t got[BYTES], sent[BYTES];
};

INLAY_PRINTF(5, 6)
static void fail(struct memory_test *test, const char *name, const char *expected, const char *fix, const char *format,
                 ...)
{
    char got[400];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    test->failed = true;
    check_fail(test->check, name, test->link.provider->name, expected, fix, "%s", got);
}

static inlay_status alloc(struct memory_test *test, uint64_t bytes, buffer_use use, inlay_buffer *out, inlay_diag *diag)
{
    const loaded_provider *provider = test->link.provider;

    *out = (inlay_buffer){ .handle = 0 };
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    use.alignment = test->alignment;
    check_phase(test->check, "buffer_alloc");
    return call_alloc(provider->table, provider->state, provider->first_domain, provider->first_domain, bytes, use, out,
                      diag);
}

static void release(struct memory_test *test, inlay_buffer *buffer)
{
    if (buffer->handle != 0)
        call_free(test->link.provider->table, test->link.provider->state, buffer);
    buffer->handle = 0;
}

static void check_limits(struct memory_test *test)
{
    static const uint64_t sizes[] = { UINT64_C(1) << 62, UINT64_MAX - 10, UINT64_MAX };
    inlay_diag diag;
    inlay_buffer buffer;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !test->failed; i++) {
        const inlay_status status = alloc(test, sizes[i], (buffer_use){ 0 }, &buffer, &diag);

        if (status == INLAY_OK)
            fail(test, "memory.limits", "INLAY_OUT_OF_MEMORY for more bytes than the domain has",
                 "compare with the capacity before sizes are rounded up", "'ok' for %llu bytes",
                 (unsigned long long)sizes[i]);
        else
            harness_check_answer(test->check, test->link.provider, "buffer_alloc", status, &diag);
    }
}

static void check_hints(struct memory_test *test)
{
    const uint32_t domain = test->link.provider->first_domain;
    inlay_diag diag;
    inlay_buffer buffer;
    inlay_status status =
        alloc(test, 1, (buffer_use){ .usage = 0xffffffffu, .lifetime = 77, .priority = 77 }, &buffer, &diag);

    if (status != INLAY_OK || buffer.handle == 0 || buffer.domain != domain)
        fail(test, "memory.hints", "a buffer of the requested domain, whatever the hints of a later host",
             "ignore bits of usage and numbers of lifetime and priority that are not known; set handle and domain",
             "'%s', handle %llu, domain %u instead of %u: %.200s", inlay_status_text(status),
             (unsigned long long)buffer.handle, buffer.domain, domain, diag.text);
    if (status == INLAY_OK)
        release(test, &buffer);
}

/* Copies min(source.bytes, target.bytes) bytes, also to an offset; the elements have the stride of a later host. */
static void check_sizes(struct memory_test *test, const inlay_buffer *whole)
{
    const inlay_provider *table = test->link.provider->table;
    inlay_buffer low = *whole, high = *whole;
    const inlay_buffer here = { .handle = (uintptr_t)test->sent, .bytes = BYTES };
    inlay_buffer small = here;
    inlay_copy list[COPIES];
    inlay_copy_request request = { .struct_size = sizeof request,
                                   .copy_count = COPIES,
                                   .copy_stride = sizeof list[0] + SHOWN_LATER };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct shown shown;
    inlay_status status;

    low.bytes = PART;
    high.offset += 2 * QUARTER;
    high.bytes = PART;
    small.bytes = FEW; /* the last copy has the smaller source, the others have smaller targets */
    memset(test->sent, OLD, BYTES);
    status = device_copy(&test->link, test->sent, whole, BYTES, true, &diag);
    memset(test->sent, NEW, BYTES);
    list[0] = (inlay_copy){ here, low };
    list[1] = (inlay_copy){ here, high };
    high.offset += QUARTER;
    list[2] = (inlay_copy){ small, high };
    if (status != INLAY_OK || !shown_open(shown_bytes(sizeof list[0], COPIES, SHOWN_LATER), &shown))
        return;
    request.copies = shown_put(&shown, list, sizeof list[0], COPIES, SHOWN_LATER);
    request.signal = device_point(&test->link);
    check_phase(test->check, "buffer_copy");
    status = table->buffer_copy(test->link.provider->state, &request, &diag);
    shown_hide(&shown, "of the copies of a request, after buffer_copy returned");
    check_phase(test->check, "buffer_copy, after it returned");
    if (status == INLAY_OK)
        status = device_wait(&test->link, request.signal, &diag);
    if (status == INLAY_OK)
        status = device_copy(&test->link, test->got, whole, BYTES, false, &diag);
    shown_close(&shown);
    if (status != INLAY_OK) {
        fail(test, "memory.copies", "copies of different sizes", "see buffer_copy", "%.300s", diag.text);
        return;
    }
    for (uint32_t i = 0; i < BYTES; i++) {
        static const uint32_t copied_bytes[] = { PART, 0, PART, FEW }; /* of each quarter */
        const bool copied = i % QUARTER < copied_bytes[i / QUARTER];

        if (test->got[i] == (copied ? NEW : OLD))
            continue;
        fail(test, "memory.copies", "min(source.bytes, target.bytes) bytes of every copy",
             "use offset and the smaller size of each copy, and all copies of the request", "byte %u was %s", i,
             copied ? "not copied" : "overwritten");
        return;
    }
}

static void check_map(struct memory_test *test, const inlay_buffer *whole)
{
    const inlay_provider *table = test->link.provider->table;
    inlay_buffer part = *whole;
    inlay_map_request request = { .struct_size = sizeof request, .buffer = &part, .access = INLAY_MAP_READ };
    inlay_diag diag = INLAY_DIAG_INIT;
    bool same = true;
    void *at = NULL;
    inlay_status status;

    if ((test->flags & INLAY_DOMAIN_HOST_VISIBLE) == 0)
        return;
    part.offset += BYTES / 2;
    part.bytes = BYTES / 2;
    for (uint32_t i = 0; i < BYTES; i++)
        test->sent[i] = (uint8_t)(i * 7 + i / 256);
    status = device_copy(&test->link, test->sent, whole, BYTES, true, &diag);
    check_phase(test->check, "buffer_map");
    if (status == INLAY_OK)
        status = table->buffer_map(test->link.provider->state, &request, &at, &diag);
    if (status == INLAY_OK && at != NULL) {
        same = memcmp(at, test->sent + BYTES / 2, BYTES / 2) == 0;
        call_unmap(table, test->link.provider->state, &part);
        status = device_copy(&test->link, test->got, whole, BYTES, false, &diag);
    }
    if (status != INLAY_OK || at == NULL)
        fail(test, "memory.map", "a mapping of a part of a buffer", "add offset to the address", "%.300s", diag.text);
    else if (!same || memcmp(test->got, test->sent, BYTES) != 0)
        fail(test, "memory.map", "the contents of the buffer at its offset, which a mapping for reading keeps",
             "add offset to the address; copy the contents if access has INLAY_MAP_READ", "%s",
             same ? "the buffer has other contents after unmap" : "the mapping has other bytes");
}

/* Allocates up to MOST_CHUNKS buffers of `bytes` bytes, frees them, and returns their number. */
static uint32_t fill(struct memory_test *test, uint64_t bytes)
{
    inlay_buffer buffers[MOST_CHUNKS];
    inlay_diag diag;
    uint32_t count = 0;

    while (count < MOST_CHUNKS && alloc(test, bytes, (buffer_use){ 0 }, &buffers[count], &diag) == INLAY_OK)
        count++;
    for (uint32_t i = 0; i < count; i += 2) /* in another order */
        release(test, &buffers[i]);
    for (uint32_t i = 1; i < count; i += 2)
        release(test, &buffers[i]);
    return count;
}

/* Memory that was freed can be allocated again, also after more than the capacity has been allocated in total. A single
 * round with less memory is no fault, because another program may allocate memory of the device; a leak grows in each
 * round. */
static void check_capacity(struct memory_test *test)
{
    const process_clock begin = process_clock_start();
    uint64_t bytes = test->memory_bytes / 4 < MOST_CHUNK ? test->memory_bytes / 4 : MOST_CHUNK, all = 0;
    uint32_t first = 0, last, again, fewer = 0;

    while (bytes >= LEAST_CHUNK && (first = fill(test, bytes)) == 0)
        bytes /= 2; /* other programs use the device, too */
    last = first;
    while (first > 0 && (all < 2 * test->memory_bytes || fewer > 0) && fewer < FEWER_ROUNDS &&
           process_clock_ms(&begin) < CAPACITY_MS) {
        again = fill(test, bytes);
        all += again * bytes;
        fewer = again < first && again <= last ? fewer + 1 : 0;
        last = again;
        check_tick(test->check);
    }
    if (fewer == FEWER_ROUNDS)
        fail(test, "memory.capacity", "memory that was freed is free",
             "give the bytes back in buffer_free; if another program has taken them, check again without it",
             "%u buffers of %llu bytes at first, but %u in the %uth round after they were freed", first,
             (unsigned long long)bytes, last, FEWER_ROUNDS);
}

static int count_files(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Imports shared memory by a descriptor that is closed as soon as the ownership permits. False: not supported. */
static bool import_file(struct memory_test *test, uint32_t ownership)
{
    const bool borrowed = ownership == INLAY_MEMORY_BORROWED;
    const loaded_provider *provider = test->link.provider;
    const int before = count_files(), fd = memfd_create("inlay-check", MFD_CLOEXEC);
    inlay_native_memory memory = host_memory(NULL, BYTES);
    inlay_buffer imported = { .handle = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_IO_ERROR;
    bool open = false;

    memory.handle = (uint64_t)fd;
    memory.kind = INLAY_MEMORY_SHARED_FD;
    memory.ownership = ownership;
    memset(test->sent, NEW + (int)ownership, BYTES);
    if (fd >= 0 && write(fd, test->sent, BYTES) == BYTES) {
        check_phase(test->check, "buffer_import");
        status = call_import(provider->table, provider->state, provider->first_domain, &memory, 0, &imported, &diag);
        check_phase(test->check, "the checker");
        open = fcntl(fd, F_GETFD) >= 0;
        harness_check_answer(test->check, provider, "buffer_import", status, &diag);
    }
    if (fd >= 0 && (borrowed || status != INLAY_OK) && open)
        (void)close(fd);
    if (status == INLAY_OK) {
        memset(test->got, 0, BYTES);
        status = device_copy(&test->link, test->got, &imported, BYTES, false, &diag);
        if (status != INLAY_OK || memcmp(test->got, test->sent, BYTES) != 0)
            fail(test, "memory.import", "the contents of the shared memory, after its descriptor was closed",
                 "duplicate a descriptor that is BORROWED", "%s", status != INLAY_OK ? diag.text : "other bytes");
        release(test, &imported);
        if (!test->failed && borrowed && !open)
            fail(test, "memory.import", "a BORROWED descriptor stays open", "duplicate it", "buffer_import closed it");
        if (!test->failed && count_files() > before)
            fail(test, "memory.import", "no open descriptor after buffer_free",
                 "close duplicates, and descriptors that are OWNED", "%d more", count_files() - before);
        return true;
    }
    return status != INLAY_UNSUPPORTED;
}

static void try_domain(struct memory_test *test)
{
    const inlay_provider *table = test->link.provider->table;
    inlay_diag diag;
    inlay_buffer buffer;
    inlay_status status = alloc(test, 1, (buffer_use){ 0 }, &buffer, &diag);

    if (status == INLAY_UNSUPPORTED) { /* the open device lacks the domain, see inlay_describe_request */
        check_skip(test->check, "memory", test->link.provider->name, "%.200s", diag.text);
        return;
    }
    if (status == INLAY_OK)
        release(test, &buffer);
    check_limits(test);
    check_hints(test);
    check_capacity(test);
    if (test->alignment <= QUARTER && alloc(test, BYTES, (buffer_use){ 0 }, &buffer, &diag) == INLAY_OK) {
        check_sizes(test, &buffer);
        check_map(test, &buffer);
        release(test, &buffer);
    }
    if (table->buffer_import != NULL && !test->failed && import_file(test, INLAY_MEMORY_BORROWED) && !test->failed)
        (void)import_file(test, INLAY_MEMORY_OWNED);
    check_phase(test->check, "the checker");
    if (!test->failed)
        check_pass(test->check, "memory", test->link.provider->name,
                   "limits and hints of allocations, memory that is used again, copies of different sizes, parts of "
                   "buffers");
}

static void try_provider(struct check *check, const struct fixture *fixture, const loaded_provider *provider,
                         const inlay_operator *const *custom, uint32_t custom_count)
{
    const inlay_provider *table = provider->table;
    struct memory_test *test;
    inlay_domain_info domains[8];
    inlay_device_info device = { .struct_size = sizeof device };
    const inlay_describe_request request = { .struct_size = sizeof request,
                                             .device = &device,
                                             .domains = domains,
                                             .domain_count = table->domain_count,
                                             .domain_stride = sizeof domains[0] };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)fixture, (void)custom, (void)custom_count;
    if (table->domain_count == 0 || table->domain_count > 8 || !check_unit(check, "%s", provider->name))
        return;
    for (uint32_t i = 0; i < table->domain_count; i++)
        domains[i] = *INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, i);
    if (table->describe != NULL && table->describe(provider->state, &request, &diag) != INLAY_OK)
        return; /* group `device` reports it */
    test = calloc(1, sizeof *test);
    if (test == NULL)
        return;
    *test = (struct memory_test){ .check = check,
                                  .link.provider = provider,
                                  .alignment = domains[0].alignment > 0 ? domains[0].alignment : 1,
                                  .flags = domains[0].flags,
                                  .memory_bytes = domains[0].memory_bytes };
    if (timeline_create(&test->link.timeline, &diag) == INLAY_OK) {
        try_domain(test);
        timeline_destroy(test->link.timeline);
    }
    free(test);
}

void check_group_memory(struct check *check)
{
    fixture_each(check, "memory", try_provider);
}
