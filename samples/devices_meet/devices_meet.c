/* devices_meet - a camera, two devices and a display pass a picture on without a copy through the host:
 *
 *     camera --frame--> isp (Cast, Sqrt) --light--> npu (MatMul, Relu) --result--> display
 *
 * The program plays the camera and the display: it owns two ranges of shared memory, which the isp reads and the npu
 * writes. It counts copies on both devices and in the host's profile, and compares the results with those of provider
 * reference.
 *
 *     devices_meet [--separate]      --separate: the devices do not share memory
 *
 * Exit status: 0 if the results are equal, no value was copied through the host, and no file descriptor leaks. */
#include "devices.h"
#include "model.h"
#include <dirent.h>
#include <inlay/inlay.h>
#include <inlay/plugin.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRAMES = 3, FRAME_BYTES = MODEL_ROWS * MODEL_COLUMNS, RESULTS = MODEL_ROWS * MODEL_RESULTS };
static const int64_t frame_dims[] = { MODEL_ROWS, MODEL_COLUMNS }, result_dims[] = { MODEL_ROWS, MODEL_RESULTS };

/* Shared memory of the program. */
struct memory {
    int fd; /* -1: closed, or passed on */
    void *data;
    size_t bytes;
};

static inlay_status memory_create(struct memory *memory, const char *name, size_t bytes, inlay_diag *diag)
{
    *memory = (struct memory){ .fd = memfd_create(name, MFD_CLOEXEC), .bytes = bytes };
    memory->data = memory->fd >= 0 && ftruncate(memory->fd, (off_t)bytes) == 0
                       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0)
                       : MAP_FAILED;
    return memory->data != MAP_FAILED ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no shared memory");
}

static void memory_destroy(struct memory *memory)
{
    if (memory->data != NULL && memory->data != MAP_FAILED)
        (void)munmap(memory->data, memory->bytes);
    if (memory->fd >= 0)
        (void)close(memory->fd);
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        (void)closedir(folder);
    return count;
}

/* The camera takes a picture. */
static void take_picture(unsigned char *frame, int number)
{
    for (int i = 0; i < FRAME_BYTES; i++)
        frame[i] = (unsigned char)(i * 31 + number * 101);
}

static inlay_status open_session(const char *providers, bool separate, const void *model, size_t bytes,
                                 inlay_session **out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status;

    INLAY_TRY(inlay_options_create(&options, diag));
    INLAY_TRY(inlay_options_set(options, "providers", providers, diag));
    INLAY_TRY(inlay_options_set(options, "policy", "priority", diag));
    if (separate) {
        INLAY_TRY(inlay_options_set(options, "isp.share", "none", diag));
        INLAY_TRY(inlay_options_set(options, "npu.share", "none", diag));
    }
    INLAY_TRY(inlay_session_create_from_bytes(model, bytes, options, out, diag));
done:
    inlay_options_destroy(options);
    return status;
}

/* A value over shared memory in a device, or over its mapping if the device cannot import it. own: the value's memory
 * closes the descriptor. */
static inlay_status wrap(inlay_session *session, const char *provider, struct memory *memory, bool own,
                         inlay_dtype dtype, const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    const inlay_native_memory native = { .struct_size = sizeof native,
                                         .handle = (uint64_t)memory->fd,
                                         .bytes = memory->bytes,
                                         .kind = INLAY_MEMORY_SHARED_FD,
                                         .ownership = own ? INLAY_MEMORY_OWNED : INLAY_MEMORY_BORROWED };
    inlay_status status = inlay_session_value_wrap(session, provider, &native, dtype, 2, dims, out, diag);

    if (status == INLAY_OK && own)
        memory->fd = -1;
    if (status != INLAY_UNSUPPORTED)
        return status;
    printf("%s\n", diag->text);
    return inlay_value_borrow(dtype, 2, dims, memory->data, memory->bytes, out, diag);
}

/* Collects the profile and counts the copies in it. */
struct text {
    char data[65536];
    size_t count;
};

static void append(void *user, const char *text, size_t bytes)
{
    struct text *out = user;

    if (bytes < sizeof out->data - out->count) {
        memcpy(out->data + out->count, text, bytes);
        out->count += bytes;
    }
}

static inlay_status count_profiled_copies(const inlay_context *context, int *out_count, inlay_diag *diag)
{
    const inlay_profile_options how = { .struct_size = sizeof how, .format = "trace" };
    static struct text text;
    inlay_status status;

    memset(&text, 0, sizeof text);
    status = inlay_context_profile_write(context, &how, append, &text, diag);
    *out_count = 0;
    for (const char *at = text.data; (at = strstr(at, "\"copy of ")) != NULL; at++)
        ++*out_count;
    return status;
}

static inlay_status run_reference(const void *model, size_t bytes, unsigned char *frame, float *result,
                                  inlay_diag *diag)
{
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *value = NULL;
    inlay_status status;

    INLAY_TRY(open_session("reference", false, model, bytes, &session, diag));
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(inlay_value_borrow(INLAY_UINT8, 2, frame_dims, frame, FRAME_BYTES, &value, diag));
    INLAY_TRY(inlay_context_set_input(context, 0, value, diag));
    INLAY_TRY(inlay_context_run(context, NULL, diag));
    memcpy(result, inlay_value_data(inlay_context_output(context, 0)), RESULTS * sizeof *result);
done:
    inlay_value_unref(value);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    return status;
}

/* Runs FRAMES pictures on both devices; *out_equal: all results were those of provider reference. */
static inlay_status run_devices(const void *model, size_t bytes, bool separate, int *out_profiled, bool *out_equal,
                                inlay_diag *diag)
{
    struct memory camera = { .fd = -1 }, display = { .fd = -1 };
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_value *frame = NULL, *result = NULL;
    float want[RESULTS];
    inlay_status status;

    *out_equal = true;
    INLAY_TRY(memory_create(&camera, "camera", FRAME_BYTES, diag));
    INLAY_TRY(memory_create(&display, "display", RESULTS * sizeof(float), diag));
    INLAY_TRY(open_session("isp,npu,reference", separate, model, bytes, &session, diag));
    INLAY_TRY(inlay_context_create(session, &context, diag));
    INLAY_TRY(wrap(session, "isp", &camera, false, INLAY_UINT8, frame_dims, &frame, diag));
    INLAY_TRY(wrap(session, "npu", &display, true, INLAY_FLOAT, result_dims, &result, diag));
    INLAY_TRY(inlay_context_set_input(context, 0, frame, diag));
    INLAY_TRY(inlay_context_set_output(context, 0, result, diag));
    INLAY_TRY(inlay_context_profile(context, 1, 0, diag));
    for (int i = 0; i < FRAMES; i++) {
        take_picture(camera.data, i);
        INLAY_TRY(inlay_context_run(context, NULL, diag));
        INLAY_TRY(run_reference(model, bytes, camera.data, want, diag));
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the same bits are expected */
        *out_equal = *out_equal && memcmp(display.data, want, sizeof want) == 0;
    }
    INLAY_TRY(count_profiled_copies(context, out_profiled, diag));
done:
    inlay_value_unref(frame);
    inlay_value_unref(result);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    memory_destroy(&camera);
    memory_destroy(&display);
    return status;
}

int main(int argc, char **argv)
{
    const bool separate = argc == 2 && strcmp(argv[1], "--separate") == 0;
    unsigned char model[4096];
    const size_t bytes = write_model(model, sizeof model);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OK;
    uint32_t host_copies, device_copies;
    int profiled = 0, before, leaked;
    bool equal = false;

    if (argc > 1 + separate || bytes == 0) {
        fprintf(stderr, "usage: devices_meet [--separate]\n");
        return 2;
    }
    INLAY_TRY(inlay_plugin_register(inlay_plugin_open, &diag));
    INLAY_TRY(run_devices(model, bytes, separate, &profiled, &equal, &diag)); /* opens what stays open */
    before = count_descriptors();
    INLAY_TRY(run_devices(model, bytes, separate, &profiled, &equal, &diag));
    leaked = count_descriptors() - before;
    host_copies = isp_counters.host_copies + npu_counters.host_copies;
    device_copies = isp_counters.device_copies + npu_counters.device_copies;
    printf("%d frames, twice: %u copies from or to host memory, %u copies on devices, %d copies in the last profile\n",
           FRAMES, host_copies, device_copies, profiled);
    printf("imported: %u times by the isp, %u times by the npu; buffers left: %u\n", isp_counters.imports,
           npu_counters.imports, isp_counters.buffers + npu_counters.buffers);
    printf("results: %s; file descriptors left open: %d\n", equal ? "equal" : "different", leaked);
    if (!equal || leaked != 0 || host_copies + device_copies + (uint32_t)profiled != 0 ||
        isp_counters.buffers + npu_counters.buffers != 0)
        return 1;
done:
    if (status != INLAY_OK)
        fprintf(stderr, "devices_meet: %s\n", diag.text);
    return status == INLAY_OK ? 0 : 1;
}
