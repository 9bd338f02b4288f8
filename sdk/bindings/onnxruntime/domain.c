/* Domains of custom operators: lists that a program fills. */
#include "custom.h"
#include <stdlib.h>
#include <string.h>

OrtStatus *ort_CreateCustomOpDomain(const char *domain, OrtCustomOpDomain **out)
{
    ORT_NEED(domain);
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out == NULL || ((*out)->name = strdup(domain)) == NULL) {
        free(*out);
        *out = NULL;
        return ort_no_memory();
    }
    return NULL;
}

OrtStatus *ort_CustomOpDomain_Add(OrtCustomOpDomain *custom_op_domain, const OrtCustomOp *op)
{
    ORT_NEED(custom_op_domain);
    ORT_NEED(op);
    if (!ORT_GROW(custom_op_domain->ops, custom_op_domain->count))
        return ort_no_memory();
    custom_op_domain->ops[custom_op_domain->count++] = op;
    return NULL;
}

void ort_ReleaseCustomOpDomain(OrtCustomOpDomain *domain)
{
    if (domain == NULL)
        return;
    free(domain->name);
    free(domain->ops);
    free(domain);
}
