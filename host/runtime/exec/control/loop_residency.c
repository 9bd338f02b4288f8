/* exec/control/loop_residency.c - keeps loop-carried values and results of branches on the device that computes
 * them. */
#include "exec/control/body.h"
#include "exec/device/residency.h"
#include "inlay/check.h"
#include <string.h>

/* Returns whether carried value i is already in `domain` before the first iteration. If the domain shares memory with
 * the host, the value must be in host memory; if the device reads it, in shared memory. Values other than numeric
 * tensors never need a copy. */
static bool is_carried_in(const struct loop *loop, uint32_t i, uint32_t domain)
{
    const run_value *value = &loop->in[loop->first_input + i];
    const bool shared = domain_is_shared(loop->body->prog->env, domain);

    if (value->kind != INLAY_KIND_TENSOR || value->dtype == INLAY_STRING)
        return true;
    return value->buffer.domain == (shared ? (uint32_t)INLAY_DOMAIN_HOST : domain) &&
           (!shared || loop->body->prog->uses.reader_domain[loop->graph->inputs[loop->first_input + i]] != domain ||
            value->alias.handle != 0);
}

/* If the value is on a device in memory shared with the host: describes it by its host buffer. */
static void use_host_alias(run_value *value)
{
    const inlay_buffer device_buffer = value->buffer;

    if (device_buffer.domain == INLAY_DOMAIN_HOST || value->alias.handle == 0 ||
        value->alias.domain != INLAY_DOMAIN_HOST)
        return;
    value->buffer = value->alias;
    value->alias = device_buffer;
}

/* The domain with shared memory that reads carried value i in the next iteration, or after the loop, if the host
 * computes the value. */
static uint32_t shared_reader_domain(const struct loop *loop, uint32_t i)
{
    const inlay_node_info *node = &loop->call->node->info;
    const uint32_t within = loop->body->prog->uses.reader_domain[loop->graph->inputs[loop->first_input + i]];
    const uint32_t after = i < node->output_count && node->outputs[i] != INLAY_NONE
                               ? next_reader_domain(loop->call->runner, node->outputs[i])
                               : (uint32_t)INLAY_DOMAIN_HOST;

    return domain_is_shared(loop->body->prog->env, within)  ? within
           : domain_is_shared(loop->body->prog->env, after) ? after
                                                            : (uint32_t)INLAY_DOMAIN_HOST;
}

void loop_choose_residency(struct loop *loop, uint32_t first_input, uint32_t first_output, bool stacks)
{
    const inlay_node_info *node = &loop->call->node->info;
    uint32_t *domains =
        arena_array(&loop->call->bound->dynamic.scratch, (size_t)loop->graph->output_count + 1, sizeof *domains);

    if (domains == NULL)
        return; /* all values are copied to the host: slower, but correct */
    loop->first_input = first_input;
    for (uint32_t k = first_output; k < loop->graph->output_count; k++) {
        const uint32_t value = loop->graph->outputs[k], i = k - first_output;

        if (output_can_be_resident(loop->graph, value))
            domains[k] = live_domain(loop->body->prog->env, producing_domain(loop->body->prog, value));
        if (i < loop->carried && domains[k] == INLAY_DOMAIN_HOST && output_can_be_resident(loop->graph, value))
            domains[k] = shared_reader_domain(loop, i);
        if (i < loop->carried && storage_domain(loop->body, domains[k]) == INLAY_DOMAIN_HOST)
            use_host_alias(&loop->in[first_input + i]);
        if (i < loop->carried)
            loop->needs_upload |= !is_carried_in(loop, i, domains[k]);
        else if (domains[k] == INLAY_DOMAIN_HOST)
            continue;
        else if (!stacks || i >= node->output_count || node->outputs[i] == INLAY_NONE ||
                 domains[k] != residency_domain(loop->call->runner, node->outputs[i]))
            domains[k] = INLAY_DOMAIN_HOST;
        if (domains[k] != INLAY_DOMAIN_HOST)
            loop->body->out.domains = domains;
    }
    loop->domains = domains + first_output;
}

void branch_choose_residency(struct loop *loop)
{
    const inlay_node_info *node = &loop->call->node->info;
    uint32_t *domains =
        arena_array(&loop->call->bound->dynamic.scratch, (size_t)loop->graph->output_count + 1, sizeof *domains);

    for (uint32_t k = 0; domains != NULL && k < loop->graph->output_count && k < node->output_count; k++) {
        if (node->outputs[k] == INLAY_NONE || !output_can_be_resident(loop->graph, loop->graph->outputs[k]))
            continue;
        domains[k] = next_reader_domain(loop->call->runner, node->outputs[k]);
        if (domains[k] != INLAY_DOMAIN_HOST)
            loop->body->out.domains = domains;
    }
}

static inlay_status upload(const struct loop *loop, const run_value *value, uint32_t domain, inlay_value **out)
{
    inlay_status status;

    if (!domain_is_shared(loop->body->prog->env, domain))
        return copy_to_domain(loop->body, value, domain, out, loop->call->diag);
    status =
        shared_value_create(loop->call->runner, domain, value->dtype, value->rank, value->dims, out, loop->call->diag);
    if (status == INLAY_OK && value->buffer.domain != INLAY_DOMAIN_HOST)
        status = copy_between_domains(loop->body, &value->buffer, &(*out)->buffer, loop->call->diag);
    else if (status == INLAY_OK && value->buffer.bytes > 0)
        memcpy(value_data(*out), inlay_buffer_host(&value->buffer), (size_t)value->buffer.bytes);
    return status;
}

inlay_status loop_upload_carried(struct loop *loop)
{
    run_value *before = arena_copy(&loop->call->bound->dynamic.scratch, &loop->in[loop->first_input],
                                   (loop->carried + 1) * sizeof *before);
    inlay_status status = before != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;

    INLAY_CHECK(loop->domains != NULL);
    loop->needs_upload = false;
    for (uint32_t i = 0; i < loop->carried && status == INLAY_OK; i++) {
        run_value *in = &loop->in[loop->first_input + i];

        if (is_carried_in(loop, i, loop->domains[i]))
            continue;
        status = upload(loop, in, loop->domains[i], &loop->held[i]);
        if (status == INLAY_OK)
            *in = run_value_of(loop->held[i]);
    }
    if (status == INLAY_OK || before == NULL)
        return status;
    /* Undo. The body's runner handles a device that fails. */
    loop->body->out.domains = NULL;
    for (uint32_t i = 0; i < loop->carried; i++) {
        pool_give(loop->call->runner->shared, loop->held[i]);
        loop->held[i] = NULL;
        loop->in[loop->first_input + i] = before[i];
    }
    return is_out_of_room(status) || loop->body->prog->env->runs.without_failed ? INLAY_OK : status;
}

inlay_status loop_download_carried(struct loop *loop)
{
    loop->needs_upload = false;
    loop->body->out.domains = NULL;
    for (uint32_t i = 0; i < loop->carried; i++) {
        run_value *in = &loop->in[loop->first_input + i];
        inlay_value *host_copy;
        inlay_status status;

        if (loop->held[i] == NULL || in->buffer.domain == INLAY_DOMAIN_HOST)
            continue;
        status = copy_to_domain(loop->body, in, INLAY_DOMAIN_HOST, &host_copy, loop->call->diag);
        if (status != INLAY_OK)
            return status;
        pool_give(loop->call->runner->shared, loop->held[i]);
        loop->held[i] = host_copy;
        *in = run_value_of(host_copy);
    }
    release_device_values(loop->body, loop->body->out.values);
    release_device_values(loop->body, loop->body->out.spares);
    return INLAY_OK;
}
