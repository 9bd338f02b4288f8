#include "check/descriptors.h"
#include "base/provider_calls.h"
#include "inlay/check.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 8192, KINDS = 3, MAX_DESCRIPTORS = 1024 };
static const struct {
    uint32_t kind;
    const char *name;
} kinds[KINDS] = { { INLAY_MEMORY_DMA_BUF, "DMA_BUF" },
                   { INLAY_MEMORY_OPAQUE_FD, "OPAQUE_FD" },
                   { INLAY_MEMORY_SHARED_FD, "SHARED_FD" } };

/* A test of one kind. */
struct descriptor_test {
    device_link *link;
    uint32_t kind;
    inlay_native_memory memory; /* the imported memory; its descriptor is the checker's */
    inlay_buffer buffer;        /* the same memory as a buffer of the provider; handle 0: SHARED_FD of the checker */
    unsigned char *mapped;      /* the memory in this process; NULL: not mapped */
    unsigned char sent[BYTES], got[BYTES];
    inlay_diag diag;
};

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static uint32_t count_open(void)
{
    uint32_t count = 0;

    for (int fd = 0; fd < MAX_DESCRIPTORS; fd++)
        count += is_open(fd);
    return count;
}

static inlay_status read_memory(struct descriptor_test *test)
{
    if (test->mapped == NULL)
        return device_copy(test->link, test->got, &test->buffer, BYTES, false, &test->diag);
    memcpy(test->got, test->mapped, BYTES);
    return INLAY_OK;
}

/* Imports the memory, writes to it as a buffer of the provider, and reads it through its original mapping. Returns a
 * text that states what is wrong; NULL: nothing. */
static const char *import_owned(struct descriptor_test *test, uint32_t ownership)
{
    const loaded_provider *provider = test->link->provider;
    inlay_native_memory memory = test->memory;
    const int fd = fcntl((int)test->memory.handle, F_DUPFD_CLOEXEC, 0);
    inlay_buffer imported = { 0 };
    inlay_status status;

    if (fd < 0)
        return "the checker has no free file descriptor";
    memory.handle = (uint64_t)fd;
    memory.ownership = ownership;
    status = call_import(provider->table, provider->state, test->link->provider->first_domain, &memory, INLAY_USE_INNER,
                         &imported, &test->diag);
    if (status != INLAY_OK) {
        if (!is_open(fd))
            return "a failed import closed the descriptor";
        (void)close(fd);
        return test->diag.text;
    }
    if (ownership == INLAY_MEMORY_BORROWED && !is_open(fd))
        return "the import closed a borrowed descriptor";
    if (ownership == INLAY_MEMORY_BORROWED) /* by now another descriptor has the number */
        (void)dup3((int)test->memory.handle, fd, O_CLOEXEC);
    for (uint32_t i = 0; i < BYTES; i++)
        test->sent[i] = (unsigned char)(i * 13 + ownership * 101 + 5);
    status = device_copy(test->link, test->sent, &imported, BYTES, true, &test->diag);
    if (status == INLAY_OK)
        status = read_memory(test);
    call_free(provider->table, provider->state, &imported);
    if (ownership == INLAY_MEMORY_BORROWED && close(fd) != 0)
        return "freeing the imported buffer closed a descriptor that was borrowed";
    return status != INLAY_OK                          ? test->diag.text
           : memcmp(test->got, test->sent, BYTES) != 0 ? "the imported buffer is not the same memory"
                                                       : NULL;
}

/* An import that cannot succeed must leave the descriptor to the caller. */
static const char *import_too_large(struct descriptor_test *test)
{
    const loaded_provider *provider = test->link->provider;
    inlay_native_memory memory = test->memory;
    const int fd = fcntl((int)test->memory.handle, F_DUPFD_CLOEXEC, 0);
    inlay_buffer imported = { 0 };
    const char *wrong = NULL;

    memory.handle = (uint64_t)fd;
    memory.ownership = INLAY_MEMORY_OWNED;
    memory.bytes = UINT64_C(1) << 46;
    if (fd < 0)
        return "the checker has no free file descriptor";
    if (call_import(provider->table, provider->state, provider->first_domain, &memory, INLAY_USE_INNER, &imported,
                    &test->diag) == INLAY_OK) {
        call_free(provider->table, provider->state, &imported);
        return "it imports more bytes than the memory has";
    }
    if (!is_open(fd))
        wrong = "a failed import closed the descriptor";
    else
        (void)close(fd);
    return wrong;
}

/* Exports a buffer of the provider. */
static const char *open_exported(struct descriptor_test *test)
{
    const loaded_provider *provider = test->link->provider;
    const inlay_export_request request = { .struct_size = sizeof request, .buffer = &test->buffer, .kind = test->kind };
    inlay_status status = call_alloc(provider->table, provider->state, provider->first_domain, provider->first_domain,
                                     BYTES, (buffer_use){ .usage = INLAY_USE_SHARED, .lifetime = INLAY_LIFETIME_RUN },
                                     &test->buffer, &test->diag);

    if (status != INLAY_OK)
        return test->diag.text;
    status = provider->table->buffer_export(provider->state, &request, &test->memory, &test->diag);
    if (status != INLAY_OK)
        return test->diag.text;
    if (test->memory.kind != test->kind || test->memory.ownership > INLAY_MEMORY_OWNED || test->memory.bytes < BYTES ||
        !is_open((int)test->memory.handle)) {
        test->memory.ownership = INLAY_MEMORY_BORROWED;
        return "the exported memory has another kind, another size, or no open descriptor";
    }
    return NULL;
}

/* Creates shared memory of the checker. */
static const char *open_shared(struct descriptor_test *test)
{
    const int fd = memfd_create("plugin-check", MFD_CLOEXEC);
    void *mapped = fd >= 0 && ftruncate(fd, BYTES) == 0 ? mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                                        : MAP_FAILED;

    if (mapped == MAP_FAILED) {
        if (fd >= 0)
            (void)close(fd);
        return "the checker has no shared memory";
    }
    test->mapped = mapped;
    test->memory.handle = (uint64_t)fd;
    test->memory.bytes = BYTES;
    test->memory.kind = INLAY_MEMORY_SHARED_FD;
    test->memory.ownership = INLAY_MEMORY_OWNED;
    return NULL;
}

static void close_memory(struct descriptor_test *test)
{
    const loaded_provider *provider = test->link->provider;

    if (test->mapped != NULL)
        (void)munmap(test->mapped, BYTES);
    if (test->memory.ownership == INLAY_MEMORY_OWNED)
        (void)close((int)test->memory.handle);
    if (test->buffer.handle != 0)
        call_free(provider->table, provider->state, &test->buffer);
}

static void check_kind(struct check *check, device_link *link, const inlay_domain_info *domain, size_t index,
                       bool exported)
{
    const bool imported = (domain->imports & INLAY_MEMORY_BIT(kinds[index].kind)) != 0;
    const uint32_t before = count_open();
    struct descriptor_test test = { .link = link, .kind = kinds[index].kind };
    const char *wrong;

    test.memory.struct_size = sizeof test.memory;
    test.diag = (inlay_diag)INLAY_DIAG_INIT;
    check_phase(check, exported ? "buffer_export" : "buffer_import");
    wrong = exported ? open_exported(&test) : open_shared(&test);
    if (wrong == NULL && imported)
        wrong = import_owned(&test, INLAY_MEMORY_BORROWED);
    if (wrong == NULL && imported)
        wrong = import_owned(&test, INLAY_MEMORY_OWNED);
    if (wrong == NULL && imported)
        wrong = import_too_large(&test);
    close_memory(&test);
    check_phase(check, "the checker");
    if (wrong == NULL && count_open() != before)
        wrong = count_open() > before ? "file descriptors were left open" : "file descriptors of others were closed";
    if (wrong != NULL)
        check_fail(check, "device.descriptors", link->provider->name,
                   "a file descriptor is closed by the side that the ownership names, and by the caller after "
                   "a failed call",
                   "drop the kind from exports or imports of the domain, or see INLAY_MEMORY_OWNED in inlay/types.h",
                   "%s, %s: %.200s", kinds[index].name, exported ? "exported" : "of another process", wrong);
    else
        check_pass(check, "device.descriptors", link->provider->name, "%s: %s%s", kinds[index].name,
                   exported ? "exported" : "shared memory of others",
                   imported ? ", imported as borrowed and as owned" : "");
}

void check_descriptors(struct check *check, device_link *link, const inlay_domain_info *domain)
{
    for (size_t i = 0; i < KINDS; i++) {
        if ((domain->exports & INLAY_MEMORY_BIT(kinds[i].kind)) != 0 && link->provider->table->buffer_export != NULL)
            check_kind(check, link, domain, i, true);
        if (kinds[i].kind == INLAY_MEMORY_SHARED_FD && (domain->imports & INLAY_MEMORY_BIT(kinds[i].kind)) != 0 &&
            link->provider->table->buffer_import != NULL)
            check_kind(check, link, domain, i, false);
    }
}
