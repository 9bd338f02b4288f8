/* A provider whose runs do not end: Abs ends when its run is cancelled, Relu never; Neg, if its input begins with
 * another number than 0, when the file $STUCK_FILE is removed. They log their start. While the file $STUCK_FILE.memory
 * exists, there is no memory to prepare Neg, and each try adds a byte to it. Only inputs of 7 elements do this, because
 * the host probes a plugin with other sizes before it loads the plugin. */
#include "inlay/kit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static inlay_status run_until_cancelled(const kit_call *call)
{
    inlay_status status = INLAY_OK;

    if (call->out[0].count != 7)
        return INLAY_OK;
    (void)fputs("stuck: a run\n", stderr);
    while ((status = kit_poll(call)) == INLAY_OK)
        (void)usleep(1000);
    return status;
}

static inlay_status run_for_ever(const kit_call *call)
{
    if (call->out[0].count == 7)
        (void)fputs("stuck: a run\n", stderr);
    while (call->out[0].count == 7)
        (void)sleep(1000);
    return INLAY_OK;
}

/* The output begins with the id of the thread. */
static inlay_status run_while_file(const kit_call *call)
{
    const char *file = getenv("STUCK_FILE");
    const float *x = call->in[0].data;
    float *y = call->out[0].data;

    if (call->out[0].count != 7 || file == NULL)
        return INLAY_OK;
    if (x[0] != 0 && access(file, F_OK) == 0)
        (void)fputs("stuck: a run\n", stderr);
    while (x[0] != 0 && access(file, F_OK) == 0)
        (void)usleep(1000);
    for (int64_t i = 1; i < call->out[0].count; i++)
        y[i] = -x[i];
    y[0] = (float)syscall(SYS_gettid); /* exact: at most 2^22 */
    return INLAY_OK;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_value_info *x = kit_input(node, 0);
    const char *file = getenv("STUCK_FILE");
    char path[256];
    int fd = -1;

    *out_state = NULL;
    if (x->rank != 1 || x->dims[0].value != 7 || file == NULL)
        return INLAY_OK;
    (void)snprintf(path, sizeof path, "%s.memory", file);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return INLAY_OK;
    if (write(fd, "x", 1) != 1)
        (void)fputs("stuck: cannot count\n", stderr);
    (void)close(fd);
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory while %.200s exists", path);
}

/* Low enough to always win. */
static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    (void)node, (void)shapes;
    out->ns = 0.001;
}

static const kit_kernel kernels[] = {
    { .op_type = "Abs", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_until_cancelled },
    { .op_type = "Relu", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .run = run_for_ever },
    { .op_type = "Neg", .in_types = { KIT_BIT(FLOAT) }, .cost = cost, .prepare = prepare, .run = run_while_file },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider = {
    .name = "stuck", .description = "runs that do not end", .tables = tables, .table_count = 1, .poll_ms = 1
};
static const kit_plugin plugin = { .name = "stuck", .version = "1.0", .provider = &provider };
KIT_PLUGIN_NAMED(plugin, "stuck", "stuck", "")
