/* Custom operators that a library defines. The host learns them from the open provider (inlay.operators/1). The library
 * fuses their nodes, or claims them one by one and has their kernels. */
#include "ort_ep/provider.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the operators of a domain; those in ONNX's own domains are excluded, which only ONNX extends. */
static OrtStatus *add_domain(ep_state *state, const OrtCustomOpDomain *domain)
{
    for (size_t i = 0; i < domain->count; i++) {
        const OrtCustomOp *op = domain->ops[i];
        char signature[ORT_SIGNATURE], line[300], *copy;

        if (domain->name[0] == '\0' || strncmp(domain->name, "ai.onnx", strlen("ai.onnx")) == 0) {
            (void)snprintf(line, sizeof line, "execution provider %.60s: operator %.100s in ONNX's domain is ignored",
                           state->name, op->GetName(op));
            state->host->log(state->host->ctx, INLAY_LOG_WARNING, line);
            continue;
        }
        ORT_TRY(ort_custom_signature(op, signature));
        copy = strdup(signature);
        if (copy == NULL || !ORT_GROW(state->operators, state->operator_count)) {
            free(copy);
            return ort_no_memory();
        }
        state->operators[state->operator_count++] = (inlay_operator){ .struct_size = sizeof(inlay_operator),
                                                                      .domain = domain->name,
                                                                      .op_type = op->GetName(op),
                                                                      .signature = copy,
                                                                      .since_version = ort_custom_start_version(op),
                                                                      .flags = INLAY_OPERATOR_RANDOM,
                                                                      .ctx = (void *)(uintptr_t)op,
                                                                      .infer = ort_custom_infer };
    }
    return NULL;
}

inlay_status ep_operators_open(ep_state *state, inlay_diag *diag)
{
    OrtEpFactory *factory = state->library.device->factory;
    OrtCustomOpDomain **domains = NULL;
    OrtStatus *failed;
    size_t count = 0;

    if (!EP_SINCE(factory, 24) || factory->GetNumCustomOpDomains == NULL || factory->GetCustomOpDomains == NULL)
        return INLAY_OK;
    failed = factory->GetNumCustomOpDomains(factory, &count);
    domains = failed == NULL ? calloc(count + 1, sizeof *domains) : NULL;
    if (failed == NULL)
        failed = domains != NULL ? factory->GetCustomOpDomains(factory, domains, count) : ort_no_memory();
    for (size_t i = 0; failed == NULL && i < count; i++)
        if (domains[i] != NULL)
            failed = add_domain(state, domains[i]);
    free(domains);
    if (failed != NULL)
        return ep_fail(state, "custom operators", failed, INLAY_UNSUPPORTED, diag);
    state->operator_table = (inlay_ext_operators){ .struct_size = sizeof state->operator_table,
                                                   .operators = state->operators,
                                                   .operator_count = (uint32_t)state->operator_count,
                                                   .operator_stride = sizeof *state->operators };
    return INLAY_OK;
}

void ep_operators_close(ep_state *state)
{
    for (size_t i = 0; i < state->operator_count; i++)
        free((char *)(uintptr_t)state->operators[i].signature);
    free(state->operators);
}

const OrtCustomOp *ep_operator_find(const ep_state *state, const inlay_node_info *node)
{
    for (size_t i = 0; i < state->operator_count; i++)
        if (state->operators[i].since_version == node->since_version &&
            strcmp(state->operators[i].domain, node->domain.data) == 0 &&
            strcmp(state->operators[i].op_type, node->op_type.data) == 0)
            return state->operators[i].ctx;
    return NULL;
}

const void *ep_extension(void *state_, const char *name)
{
    const ep_state *state = state_;

    return strcmp(name, INLAY_EXT_OPERATORS) == 0 && state->operator_count > 0 ? &state->operator_table : NULL;
}
