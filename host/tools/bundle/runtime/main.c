/* The main program of a bundle: .npy files or values in, .npy files or text out. */
#include "text.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TENSORS = 64 };

struct files {
    const char *in[MAX_TENSORS], *out; /* out: a folder */
    uint32_t repeat;
    int info;
};

static int fail(const char *name, const char *what, const char *which)
{
    (void)fprintf(stderr, "%s: %s%s%s\n", name, what, which != NULL ? ": " : "", which != NULL ? which : "");
    return 1;
}

static double now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The text of a header of version 1.0 that describes the array, "{'descr': '<f4', ...}", without the blanks after it;
 * *out_bytes is its length. */
static const char *npy_text(const char *head, uint32_t bytes, int *out_bytes)
{
    while (bytes > 10 && (head[bytes - 1] == '\n' || head[bytes - 1] == ' '))
        bytes--;
    *out_bytes = bytes > 10 ? (int)bytes - 10 : 0;
    return head + 10;
}

/* Whether the array in the file, whose header begins at `at`, has the tensor's type and its elements in C order. */
static int is_alike(int fd, uint64_t at, uint64_t bytes, const bundle_tensor *tensor)
{
    static const char fortran[] = "'fortran_order': True";
    char text[4096];
    int length;
    const char *wanted = npy_text(tensor->npy, tensor->npy_bytes, &length), *comma = strchr(wanted, ',');
    const uint64_t most = bytes < sizeof text - 1 ? bytes : sizeof text - 1;
    const ssize_t got = pread(fd, text, most, (off_t)at);

    if (got <= 0 || comma == NULL)
        return 0;
    text[got] = '\0';
    if (strstr(text, fortran) != NULL)
        return 0;
    /* "{'descr': '<V2'": numpy has no name for bfloat16 and other types of ONNX */
    return strncmp(text, wanted, (size_t)(comma - wanted)) == 0 || (got > 12 && text[12] == 'V');
}

/* Reads the tensor of a .npy file; 0: it is unreadable or has another type or size. */
static int read_npy(const char *path, const bundle_tensor *tensor, char *to)
{
    unsigned char head[12];
    uint64_t skip, got = 0;
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int good = fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head && memcmp(head, "\x93NUMPY", 6) == 0;

    if (good) {
        skip = head[6] == 1 ? 10 + (uint64_t)(head[8] | head[9] << 8)
                            : 12 + ((uint64_t)head[8] | (uint64_t)head[9] << 8 | (uint64_t)head[10] << 16);
        good = fstat(fd, &st) == 0 && (uint64_t)st.st_size == skip + tensor->bytes &&
               is_alike(fd, head[6] == 1 ? 10 : 12, skip, tensor) && lseek(fd, (off_t)skip, SEEK_SET) >= 0;
    }
    while (good && got < tensor->bytes) {
        const ssize_t bytes = read(fd, to + got, tensor->bytes - got);

        good = bytes > 0;
        got += good ? (uint64_t)bytes : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return good;
}

/* Says what the file is and what the input is. */
static int fail_input(const char *name, const bundle_tensor *tensor, const char *path)
{
    int bytes;
    const char *wanted = npy_text(tensor->npy, tensor->npy_bytes, &bytes), *comma = strchr(wanted, ',');
    char head[512];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, head, sizeof head) : -1;
    const size_t type_bytes = comma != NULL ? (size_t)(comma - wanted) : 0;
    const char *text = got > 12 && memcmp(head, "\x93NUMPY", 6) == 0 ? memchr(head, '{', (size_t)got) : NULL;
    const char *end = text != NULL ? memchr(text, '}', (size_t)(head + got - text)) : NULL;

    if (fd >= 0)
        (void)close(fd);
    if (end != NULL && end + 1 - text == bytes && memcmp(text, wanted, (size_t)bytes) == 0)
        end = NULL; /* the array itself is cut short */
    if (end == NULL)
        (void)fprintf(stderr, "%s: not a readable .npy file for input %s, which is %.*s: %s\n", name, tensor->name,
                      bytes, wanted, path);
    else
        (void)fprintf(stderr, "%s: %s is %.*s, but input %s is %.*s", name, path, (int)(end + 1 - text), text,
                      tensor->name, bytes, wanted);
    if (end != NULL && type_bytes > 13 && (size_t)(end - text) > type_bytes && wanted[12] != 'V' &&
        memcmp(text, wanted, type_bytes) != 0)
        (void)fprintf(stderr, ": save array.astype(%.*s)", (int)type_bytes - 10, wanted + 10);
    if (end != NULL)
        (void)fputc('\n', stderr);
    return 1;
}

/* Reads the file or the values that an argument gives. Returns 0, or an exit code. */
static int read_input(const char *name, const bundle_tensor *tensor, const char *source, char *to)
{
    const char *at, *fault;

    if (!text_is_values(source))
        return read_npy(source, tensor, to) ? 0 : fail_input(name, tensor, source);
    fault = text_read(source, tensor, to, &at);
    if (fault == NULL)
        return 0;
    (void)fprintf(stderr, "%s: input %s: %s, at '%.40s'; --help lists types and shapes\n", name, tensor->name, fault,
                  at);
    return 1;
}

static int write_npy(const char *path, const bundle_tensor *tensor, const char *from)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    uint64_t done = 0;
    int good = fd >= 0 && write(fd, tensor->npy, tensor->npy_bytes) == (ssize_t)tensor->npy_bytes;

    while (good && done < tensor->bytes) {
        const ssize_t bytes = write(fd, from + done, tensor->bytes - done);

        good = bytes > 0;
        done += good ? (uint64_t)bytes : 0;
    }
    return (fd < 0 || close(fd) == 0) && good;
}

static void usage(const bundle_model *model, const char *name)
{
    (void)printf("Usage: %s [--info] [--repeat N] [-o DIR] [--input NAME=SOURCE ...]\n"
                 "Runs the model in this file. SOURCE is a .npy file or values, '1,2,3,4' or '[[1,2],[3,4]]'; inputs "
                 "without one are zeros. Prints the first elements of the outputs, or with -o writes each to "
                 "DIR/NUMBER.npy. The word --input may be omitted. --info prints times and memory instead: of N runs, "
                 "or of the runs in a fifth of a second. best_run_us is the steady time.\n",
                 name);
    for (uint32_t i = 0; i < model->input_count + model->output_count; i++) {
        const int is_input = i < model->input_count;
        const bundle_tensor *tensor = is_input ? &model->inputs[i] : &model->outputs[i - model->input_count];
        int bytes;
        const char *text = npy_text(tensor->npy, tensor->npy_bytes, &bytes);

        (void)printf("%s %u: %s, %llu bytes, %.*s\n", is_input ? "input" : "output",
                     is_input ? i : i - model->input_count, tensor->name, (unsigned long long)tensor->bytes, bytes,
                     text);
    }
}

static uint32_t number_of(const char *text)
{
    uint32_t number = 0;

    for (; *text >= '0' && *text <= '9' && number < 100000000; text++)
        number = number * 10 + (uint32_t)(*text - '0');
    return *text == '\0' ? number : 0;
}

/* Returns 0, or an exit code; -1: --help was printed. */
static int parse(const bundle_model *model, const char *name, int argc, char **argv, struct files *files)
{
    for (int i = 1; i < argc; i++) {
        const char *equals;
        uint32_t k = 0;

        if (strcmp(argv[i], "--input") == 0 && i + 1 < argc) /* as `inlay run` */
            i++;
        equals = strchr(argv[i], '=');

        if (strcmp(argv[i], "--help") == 0) {
            usage(model, name);
            return -1;
        }
        if (strcmp(argv[i], "--info") == 0) {
            files->info = 1;
        } else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc && number_of(argv[i + 1]) > 0) {
            files->repeat = number_of(argv[++i]);
        } else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
            files->out = argv[++i];
        } else if (equals != NULL && argv[i][0] != '-') {
            while (k < model->input_count &&
                   (strncmp(argv[i], model->inputs[k].name, (size_t)(equals - argv[i])) != 0 ||
                    model->inputs[k].name[equals - argv[i]] != '\0'))
                k++;
            if (k == model->input_count)
                return fail(name, "unknown input", argv[i]) + 1;
            files->in[k] = equals + 1;
        } else {
            return fail(name, "unknown argument; see --help", argv[i]) + 1;
        }
    }
    return 0;
}

static void print_info(const bundle_model *model, double start_us, double first_us, double *times, uint32_t count,
                       uint64_t before)
{
    double best = times[0], sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        best = times[i] < best ? times[i] : best;
        sum += times[i];
    }
    (void)printf("start_us %.1f\nfirst_run_us %.1f\nbest_run_us %.2f\nmean_run_us %.2f\narena_bytes %llu\n"
                 "peak_resident_bytes %llu\n"
                 "allocations_at_start %llu\nallocations_in_runs %llu\npacks %u\n",
                 start_us, first_us, best, sum / count, (unsigned long long)bundle_arena_peak(),
                 (unsigned long long)pages_peak(), (unsigned long long)before,
                 (unsigned long long)(bundle_allocations() - before), model->pack_count);
}

static uint64_t read_hex(const char **at)
{
    uint64_t number = 0;

    for (;; ++*at) {
        const char c = **at;

        if (c >= '0' && c <= '9')
            number = number * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number * 16 + (uint64_t)(c - 'a') + 10;
        else
            return number;
    }
}

/* Whether these pages are mapped read-only from a file. If another program has unpacked this one into memory, its pages
 * have no file from which they could be read again. A line is "BEGIN-END r--p OFFSET DEVICE INODE NAME". */
static int are_of_file(uint64_t first, uint64_t last)
{
    static char text[4096];
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : 0; /* the program is the first entry */

    if (fd >= 0)
        (void)close(fd);
    for (const char *line = text; bytes > 0 && line != NULL && *line != '\0';) {
        const char *at = line, *next = strchr(line, '\n');
        const uint64_t begin = read_hex(&at), end = *at == '-' ? (at++, read_hex(&at)) : 0;

        if (begin <= first && last <= end && next != NULL && next - at > 6) {
            const int is_written = at[2] == 'w';

            for (int field = 0; field < 4 && at < next; at++)
                field += *at == ' ';
            return !is_written && *at != '0';
        }
        line = next != NULL ? next + 1 : NULL;
    }
    return 0;
}

/* Makes the start drop the constants from memory once they are packed. */
static void drop_constants(const bundle_model *model)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uint64_t)(uintptr_t)model->data;
    const uint64_t first = (at + page - 1) / page * page, last = (at + model->data_bytes) / page * page;

    if (first < last && are_of_file(first, last))
        bundle_drop_pages((void *)(uintptr_t)first, last - first);
}

int bundle_main(const bundle_model *model, const char *name, int argc, char **argv)
{
    static double times[1024];
    struct files files = { 0 };
    uint32_t runs = 0;
    double end;
    const void *in[MAX_TENSORS];
    void *out[MAX_TENSORS];
    double begin, started_us, first = 0;
    uint64_t before;
    int code = model->input_count > MAX_TENSORS || model->output_count > MAX_TENSORS
                   ? fail(name, "more than 64 inputs or outputs", NULL)
                   : parse(model, name, argc, argv, &files);

    if (code != 0)
        return code < 0 ? 0 : code;
    begin = now_us();
    drop_constants(model);
    if (bundle_start(model, NULL, 0) != INLAY_OK)
        return fail(name, bundle_error(), NULL);
    started_us = now_us() - begin;
    for (uint32_t i = 0; i < model->input_count + model->output_count; i++) {
        const bundle_tensor *tensor =
            i < model->input_count ? &model->inputs[i] : &model->outputs[i - model->input_count];
        char *memory = heap_alloc(tensor->bytes, 64);

        if (memory == NULL)
            return fail(name, "out of memory for the tensors", NULL);
        memset(memory, 0, tensor->bytes);
        if (i < model->input_count)
            in[i] = memory;
        else
            out[i - model->input_count] = memory;
        if (i < model->input_count && files.in[i] != NULL && read_input(name, tensor, files.in[i], memory) != 0)
            return 1;
    }
    before = bundle_allocations();
    /* --info without --repeat shows the steady time: runs for a fifth of a second. */
    end = now_us() + (files.info && files.repeat == 0 ? 2e5 : 0);
    for (; runs == 0 || runs < files.repeat || (runs < 1024 && now_us() < end); runs++) {
        const double begun = now_us();

        if (bundle_run(model, in, out) != INLAY_OK)
            return fail(name, bundle_error(), NULL);
        times[runs % 1024] = now_us() - begun;
        if (runs == 0)
            first = times[0];
    }
    if (files.info)
        print_info(model, started_us, first, times, runs < 1024 ? runs : 1024, before);
    for (uint32_t i = 0; i < model->output_count; i++) {
        char path[4096];

        if (files.out == NULL && !files.info)
            text_print(&model->outputs[i], out[i]);
        if (files.out == NULL)
            continue;
        (void)snprintf(path, sizeof path, "%s/%u.npy", files.out, i);
        if (!write_npy(path, &model->outputs[i], out[i]))
            return fail(name, "cannot write (-o names a folder that exists)", path);
    }
    return 0;
}
