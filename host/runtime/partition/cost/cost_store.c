#include "partition/cost/cost_store.h"
#include "base/hash.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The header of the file; the records follow. */
typedef struct store_head {
    char magic[8];
    uint32_t format;
    uint32_t record_bytes;
    uint64_t count;
    uint64_t checksum; /* of the records */
} store_head;

enum { FORMAT = 1 };
static const char magic[8] = { 'i', 'n', 'l', 'a', 'y', 't', 'i', 'm' };
static const char file_name[] = "measured.bin";
static const double MIN_NOISE = 0.05;

void cost_store_deinit(cost_store *store)
{
    free(store->records);
    *store = (cost_store){ 0 };
}

static bool is_valid_record(const cost_record *record)
{
    return isfinite(record->ns) && record->ns >= 0 && isfinite(record->spread) && record->spread >= 0;
}

/* The reason why the contents of a file are invalid; NULL: they are valid. */
static const char *invalid_reason(const char *data, size_t bytes)
{
    store_head head;
    const cost_record *records = (const void *)(data + sizeof head);

    if (bytes < sizeof head)
        return "it is too short";
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.format != FORMAT ||
        head.record_bytes != sizeof(cost_record))
        return "it has another format";
    if (head.count > COST_STORE_MAX_RECORDS || bytes - sizeof head != head.count * sizeof(cost_record) ||
        hash_bytes(records, bytes - sizeof head, 0) != head.checksum)
        return "it is damaged";
    for (uint64_t i = 0; i < head.count; i++)
        if (!is_valid_record(&records[i]) || (i > 0 && !cost_key_less(&records[i - 1].key, &records[i].key)))
            return "it is damaged";
    return NULL;
}

inlay_status cost_store_load(const char *folder, const cost_log *log, cost_store *out)
{
    size_t bytes, most = sizeof(store_head) + (size_t)COST_STORE_MAX_RECORDS * sizeof(cost_record);
    const char *fault;
    char *data;
    inlay_status status = cost_file_read(folder, file_name, most, log, &data, &bytes);

    *out = (cost_store){ 0 };
    if (status != INLAY_OK || data == NULL)
        return status;
    fault = invalid_reason(data, bytes);
    if (fault != NULL) {
        cost_say(log, INLAY_LOG_WARNING, "costs: %.300s/%s is ignored: %s", folder, file_name, fault);
        free(data);
        return INLAY_OK;
    }
    out->count = (uint32_t)((bytes - sizeof(store_head)) / sizeof(cost_record));
    memmove(data, data + sizeof(store_head), out->count * sizeof(cost_record));
    out->records = (cost_record *)(void *)data;
    return INLAY_OK;
}

const cost_record *cost_store_find(const cost_store *store, cost_key key)
{
    uint32_t low = 0, high = store->count;

    INLAY_CHECK(store->count == 0 || store->records != NULL);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (cost_key_less(&store->records[middle].key, &key))
            low = middle + 1;
        else
            high = middle;
    }
    return low < store->count && memcmp(&store->records[low].key, &key, sizeof key) == 0 ? &store->records[low] : NULL;
}

bool cost_list_add(cost_list *list, const cost_record *record)
{
    if (!LIST_GROW(list->records, list->count))
        return false;
    list->records[list->count++] = *record;
    return true;
}

cost_record *cost_list_find(const cost_list *list, cost_key key)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (memcmp(&list->records[i].key, &key, sizeof key) == 0)
            return &list->records[i];
    return NULL;
}

void cost_list_merge(cost_list *list)
{
    uint32_t written = 0;

    if (list->count > 0)
        qsort(list->records, list->count, sizeof *list->records, cost_key_order);
    for (uint32_t i = 0, end; i < list->count; i = end) {
        cost_record merged = list->records[i];
        double sum = 0, off = 0;

        for (end = i; end < list->count && cost_key_order(&merged, &list->records[end]) == 0; end++)
            sum += list->records[end].ns;
        merged.ns = sum / (end - i);
        for (uint32_t k = i; k < end; k++)
            off += fabs(list->records[k].ns / merged.ns - 1) / (end - i);
        merged.spread = (float)fmax(merged.spread, off);
        list->records[written++] = merged;
    }
    list->count = written;
}

void cost_record_absorb(cost_record *old, const cost_record *fresh)
{
    double noise = fmax(MIN_NOISE, fmax((double)old->spread, (double)fresh->spread));
    uint32_t samples;

    if (fabs(fresh->ns - old->ns) > noise * old->ns) {
        *old = *fresh;
        return;
    }
    if (__builtin_add_overflow(old->samples, fresh->samples, &samples))
        samples = UINT32_MAX;
    old->samples = samples;
    if (fresh->when > old->when)
        old->when = fresh->when;
}

static int by_age(const void *a_, const void *b_)
{
    const cost_record *first = a_, *second = b_;

    return first->when != second->when ? (first->when > second->when ? -1 : 1) : cost_key_order(first, second);
}

/* Merges two sorted lists; records with equal keys are combined. `all` must have room for both. */
static uint32_t merge_sorted(const cost_store *old, const cost_record *fresh, uint32_t count, cost_record *all)
{
    uint32_t written = 0, i = 0, k = 0;

    while (i < old->count || k < count) {
        bool from_old = k == count || (i < old->count && !cost_key_less(&fresh[k].key, &old->records[i].key));
        const cost_record *next = from_old ? &old->records[i++] : &fresh[k++];

        if (written > 0 && memcmp(&all[written - 1].key, &next->key, sizeof next->key) == 0)
            cost_record_absorb(&all[written - 1], next);
        else
            all[written++] = *next;
    }
    INLAY_CHECK(written <= old->count + count);
    return written;
}

inlay_status cost_store_add(cost_store *store, const cost_record *fresh, uint32_t count)
{
    cost_record *all = calloc((size_t)store->count + count + 1, sizeof *all);

    if (all == NULL)
        return INLAY_OUT_OF_MEMORY;
    count = merge_sorted(store, fresh, count, all);
    free(store->records);
    *store = (cost_store){ all, count };
    return INLAY_OK;
}

static inlay_status write_records(const char *folder, cost_record *all, uint32_t count, inlay_diag *diag)
{
    store_head head = { .format = FORMAT, .record_bytes = sizeof *all };
    inlay_status status;
    char *data;

    if (count > COST_STORE_MAX_RECORDS) {
        qsort(all, count, sizeof *all, by_age);
        count = COST_STORE_MAX_RECORDS;
        qsort(all, count, sizeof *all, cost_key_order);
    }
    data = malloc(sizeof head + count * sizeof *all);
    if (data == NULL)
        return no_memory(diag, "to write measurements");
    memcpy(head.magic, magic, sizeof magic);
    head.count = count;
    head.checksum = hash_bytes(all, count * sizeof *all, 0);
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, all, count * sizeof *all);
    status = cost_file_write(folder, file_name, data, sizeof head + count * sizeof *all, diag);
    free(data);
    return status;
}

/* Waits until no other process writes. */
static int lock_folder(const char *folder, inlay_diag *diag)
{
    char path[PATH_MAX];
    int fd;

    if (snprintf(path, sizeof path, "%s/lock", folder) >= (int)sizeof path)
        fd = -1;
    else
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            (void)close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        (void)inlay_fail(diag, INLAY_IO_ERROR, "%.300s/lock: %s", folder, strerror(errno));
    return fd;
}

inlay_status cost_store_merge(const char *folder, cost_record *fresh, uint32_t count, const cost_log *log,
                              inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    cost_store old = { 0 };
    cost_record *all = NULL;
    int lock;

    if (count == 0)
        return INLAY_OK;
    lock = lock_folder(folder, diag);
    if (lock < 0)
        return INLAY_IO_ERROR;
    qsort(fresh, count, sizeof *fresh, cost_key_order);
    if (cost_store_load(folder, log, &old) == INLAY_OK)
        all = calloc((size_t)old.count + count, sizeof *all);
    if (all == NULL) {
        status = no_memory(diag, "to write measurements");
        goto done;
    }
    INLAY_TRY(write_records(folder, all, merge_sorted(&old, fresh, count, all), diag));
done:
    free(all);
    cost_store_deinit(&old);
    (void)close(lock);
    return status;
}
