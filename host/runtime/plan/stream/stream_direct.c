/* plan/stream/stream_direct.c - reads parts of divided weights into memory of their own (O_DIRECT).
 *
 * The system's cache of files takes 2 us for each page that it reads, maps and gives back. Without it, the disk writes
 * to the slots of stream_slots.c, and works on many requests while the step computes. Other parts are read by the
 * mapping of their file: in file systems without O_DIRECT, on systems other than Linux, in a process that may not use
 * asynchronous reads, and while the system has the part in its cache. */
#include "plan/stream/stream_state.h"

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/aio_abi.h>)
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#endif
#endif

#if defined(SYS_io_submit) && defined(SYS_io_getevents)
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    MOST_REQUESTS = 256, /* that the system works on at a time */
    REQUEST_BYTES = 8 << 20,
    LEAST_BYTES = 1 << 16, /* smaller parts would waste most of their slot */
    MOST_FILES = 16
};

struct stream_direct {
    aio_context_t requests; /* 0: given up */
    bool waits;             /* a thread waits for the system's answers */
    uint32_t pending;
    uint32_t file_count;
    struct direct_file {
        dev_t device;
        ino_t inode;
        uint64_t bytes;
        int fd;
    } files[MOST_FILES];
};

/* The index of the file; -1: it cannot be read with O_DIRECT. */
static int file_of(struct stream_direct *direct, const char *path, dev_t device, ino_t inode)
{
    struct direct_file *file = &direct->files[direct->file_count];
    struct stat st;

    for (uint32_t i = 0; i < direct->file_count; i++)
        if (direct->files[i].device == device && direct->files[i].inode == inode)
            return (int)i;
    if (direct->file_count == MOST_FILES)
        return -1;
    *file = (struct direct_file){ .device = device, .inode = inode, .fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC) };
    if (file->fd < 0)
        return -1;
    /* The path may name another file by now. */
    if (fstat(file->fd, &st) != 0 || st.st_dev != device || st.st_ino != inode) {
        (void)close(file->fd);
        return -1;
    }
    file->bytes = (uint64_t)st.st_size;
    return (int)direct->file_count++;
}

/* Finds the files of all divided weights in /proc/self/maps. */
static void find_files(struct weight_stream *stream)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];

    for (uint32_t i = 0; i < stream->range_count; i++)
        if (stream->ranges[i].parts != NULL)
            stream->ranges[i].parts->searched = true;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *at;
        const uintptr_t begin = strtoul(line, &at, 16), end = *at == '-' ? strtoul(at + 1, &at, 16) : 0;

        for (uint32_t i = 0; i < stream->range_count; i++) {
            const stream_range *range = &stream->ranges[i];
            unsigned long long offset;
            unsigned long inode;
            unsigned major, minor;
            char access[5];
            int path = 0;

            if (range->parts == NULL || (uintptr_t)range->data < begin || (uintptr_t)range->data + range->bytes > end ||
                sscanf(at, "%4s %llx %x:%x %lu %n", access, &offset, &major, &minor, &inode, &path) != 5 || path == 0)
                continue;
            if (access[1] == 'w' && access[3] == 'p') /* a private mapping may differ from the file */
                continue;
            at[strcspn(at, "\n")] = '\0';
            range->parts->file = file_of(stream->direct, at + path, makedev(major, minor), (ino_t)inode);
            range->parts->offset = offset + ((uintptr_t)range->data - begin);
        }
    }
    if (maps != NULL)
        (void)fclose(maps);
}

static bool can_read(struct weight_stream *stream)
{
    if (stream->direct == NULL && !stream->only_mapped) {
        stream->direct = calloc(1, sizeof *stream->direct);
        if (stream->direct != NULL && syscall(SYS_io_setup, MOST_REQUESTS, &stream->direct->requests) != 0) {
            free(stream->direct);
            stream->direct = NULL;
        }
        stream->only_mapped = stream->direct == NULL;
    }
    return !stream->only_mapped;
}

/* Is the first page in the system's cache of files? If the system does not tell, the answer is yes. */
static bool is_cached(const char *data, uint64_t page)
{
    unsigned char in;

    return mincore((void *)((uintptr_t)data / page * page), page, &in) != 0 || (in & 1) != 0;
}

void stream_direct_read(struct weight_stream *stream, const stream_range *range, uint32_t index)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = range->parts->bytes;
    stream_part *part = &range->parts->list[index];
    uint64_t begin, end;
    int fd;

    if (bytes < LEAST_BYTES || !can_read(stream))
        return;
    if (!range->parts->searched)
        find_files(stream);
    if (range->parts->file < 0 || is_cached(range->data + index * bytes, page))
        return;
    begin = (range->parts->offset + index * bytes) / page * page;
    end = (range->parts->offset + (index + 1) * bytes + page - 1) / page * page;
    if (stream->direct->pending + (end - begin) / REQUEST_BYTES + 1 > MOST_REQUESTS)
        return; /* too many requests; the mapping is read instead */
    part->slot = stream_slots_take(&stream->slots, (bytes + page - 1) / page * page + page);
    if (part->slot == NULL)
        return;
    fd = stream->direct->files[range->parts->file].fd;
    part->left = stream->direct->files[range->parts->file].bytes;
    part->left = (part->left < end ? part->left : end) - begin;
    for (uint64_t at = begin; at < end; at += REQUEST_BYTES) {
        struct iocb request = { .aio_data = (uintptr_t)part,
                                .aio_lio_opcode = IOCB_CMD_PREAD,
                                .aio_fildes = (uint32_t)fd,
                                .aio_buf = (uintptr_t)part->slot + (at - begin),
                                .aio_nbytes = end - at < REQUEST_BYTES ? end - at : REQUEST_BYTES,
                                .aio_offset = (int64_t)at };
        struct iocb *list = &request;

        if (syscall(SYS_io_submit, stream->direct->requests, 1, &list) != 1)
            break;
        part->pending++;
        stream->direct->pending++;
    }
}

/* The system gives no answers, as a filter of system calls may demand: makes no further requests. Parts that wait for
 * some are not complete, so that the mapping is read instead. */
static void give_up(struct weight_stream *stream)
{
    (void)syscall(SYS_io_destroy, stream->direct->requests); /* returns when nothing writes to the slots */
    stream->direct->requests = 0;
    stream->direct->pending = 0;
    stream->only_mapped = true;
    for (uint32_t i = 0; i < stream->range_count; i++)
        for (uint32_t p = 0; stream->ranges[i].parts != NULL && p < stream->ranges[i].parts->count; p++)
            stream->ranges[i].parts->list[p].pending = 0;
}

/* Waits for at least one answer. */
static void take_answers(struct weight_stream *stream)
{
    struct io_event events[16];
    bool failed;
    long count;

    if (stream->direct->waits) {
        (void)pthread_cond_wait(&stream->moved, &stream->lock);
        return;
    }
    stream->direct->waits = true;
    (void)pthread_mutex_unlock(&stream->lock);
    count = syscall(SYS_io_getevents, stream->direct->requests, 1, sizeof events / sizeof events[0], events, NULL);
    failed = count < 0 && errno != EINTR;
    (void)pthread_mutex_lock(&stream->lock);
    stream->direct->waits = false;
    if (failed)
        give_up(stream);
    for (long i = 0; i < count; i++) {
        stream_part *part = (stream_part *)(uintptr_t)events[i].data;

        part->left -= events[i].res > 0 ? (uint64_t)events[i].res : 0;
        part->pending--;
        stream->direct->pending--;
    }
    (void)pthread_cond_broadcast(&stream->moved);
}

const char *stream_direct_await(struct weight_stream *stream, const stream_range *range, uint32_t index)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), offset = range->parts->offset + index * range->parts->bytes;
    stream_parts *parts = range->parts; /* the list of ranges may move */
    stream_part *part = &parts->list[index];

    while (part->pending > 0)
        take_answers(stream);
    if (part->slot != NULL && part->left != 0) { /* a read failed: the mapping is read, or reports the error */
        stream_direct_forget(stream, part);
        parts->file = -1;
    }
    return part->slot == NULL ? NULL : part->slot + offset % page;
}

void stream_direct_settle(struct weight_stream *stream)
{
    while (stream->direct != NULL && stream->direct->pending > 0)
        take_answers(stream);
}

void stream_direct_end(struct weight_stream *stream, bool forked)
{
    if (stream->direct != NULL) {
        if (!forked && stream->direct->requests != 0) /* the parent's requests are not the child's */
            (void)syscall(SYS_io_destroy, stream->direct->requests);
        for (uint32_t i = 0; i < stream->direct->file_count; i++)
            (void)close(stream->direct->files[i].fd);
    }
    free(stream->direct);
    stream->direct = NULL;
    stream_slots_destroy(stream->slots, forked);
    stream->slots = NULL;
}

#else

void stream_direct_read(struct weight_stream *stream, const stream_range *range, uint32_t index)
{
    (void)stream;
    (void)range;
    (void)index;
}

const char *stream_direct_await(struct weight_stream *stream, const stream_range *range, uint32_t index)
{
    (void)stream;
    return range->parts->list[index].slot;
}

void stream_direct_settle(struct weight_stream *stream)
{
    (void)stream;
}

void stream_direct_end(struct weight_stream *stream, bool forked)
{
    (void)stream;
    (void)forked;
}

#endif

void stream_direct_forget(struct weight_stream *stream, stream_part *part)
{
    if (part->slot != NULL)
        stream_slots_give(stream->slots, part->slot);
    part->slot = NULL;
}
