/* adapter_files.h - writes LoRA adapters as PEFT does: adapter_model.safetensors and adapter_config.json. */
#ifndef ADAPTER_FILES_H
#define ADAPTER_FILES_H
#include "inlay/types.h"
#include "random.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ADAPTER_MAX = 16, ADAPTER_FLOATS = 4096 };

/* A factor of a module: "model.layers.0.self_attn.q_proj.lora_A.weight". */
typedef struct adapter_tensor {
    char name[96];
    const char *type; /* "F32" or "BF16" */
    int64_t dims[2];
    float data[ADAPTER_FLOATS]; /* values that the type has */
} adapter_tensor;

typedef struct adapter_files {
    adapter_tensor tensors[ADAPTER_MAX];
    uint32_t count;
    double alpha;
    int64_t rank;
} adapter_files;

/* Adds both factors of a module, rank by `k` and `n` by rank, with random elements. */
static inline void adapter_add(adapter_files *files, const char *module, int64_t k, int64_t n, const char *type,
                               uint64_t *seed)
{
    for (int i = 0; i < 2; i++) {
        adapter_tensor *tensor = &files->tensors[files->count++];

        (void)snprintf(tensor->name, sizeof tensor->name, "base_model.model.%s.lora_%c.weight", module, 'A' + i);
        tensor->type = type;
        tensor->dims[0] = i == 0 ? files->rank : n;
        tensor->dims[1] = i == 0 ? k : files->rank;
        for (int64_t e = 0; e < tensor->dims[0] * tensor->dims[1]; e++)
            tensor->data[e] = (float)random_between(seed, -16, 16) / 32.0F; /* exact as bfloat16, too */
    }
}

/* weight [k, n] += the product of factors `pair` and `pair` + 1. */
static inline void adapter_merge(const adapter_files *files, uint32_t pair, float *weight)
{
    const adapter_tensor *a = &files->tensors[pair], *b = &files->tensors[pair + 1];
    const int64_t k = a->dims[1], n = b->dims[0];

    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t r = 0; r < files->rank; r++)
                sum += (double)a->data[r * k + i] * (double)b->data[j * files->rank + r];
            weight[i * n + j] += (float)(sum * files->alpha / (double)files->rank);
        }
}

static inline size_t adapter_bytes(const adapter_tensor *tensor)
{
    return (size_t)(tensor->dims[0] * tensor->dims[1]) * (strcmp(tensor->type, "BF16") == 0 ? 2 : 4);
}

/* Writes the folder's files. extra: further members of adapter_config.json, or "". 0: success. */
static inline int adapter_write(const adapter_files *files, const char *folder, const char *extra)
{
    char path[512], header[8192];
    size_t at = 0, offset = 0;
    uint64_t size;
    FILE *file;

    (void)mkdir(folder, 0777);
    for (uint32_t i = 0; i < files->count; i++) {
        const adapter_tensor *tensor = &files->tensors[i];

        at += (size_t)snprintf(header + at, sizeof header - at,
                               "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld,%lld],\"data_offsets\":[%zu,%zu]}",
                               i == 0 ? "{" : ",", tensor->name, tensor->type, (long long)tensor->dims[0],
                               (long long)tensor->dims[1], offset, offset + adapter_bytes(tensor));
        offset += adapter_bytes(tensor);
    }
    at += (size_t)snprintf(header + at, sizeof header - at, "}");
    size = at;
    (void)snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    file = fopen(path, "wb");
    if (file == NULL)
        return -1;
    (void)fwrite(&size, 1, sizeof size, file);
    (void)fwrite(header, 1, at, file);
    for (uint32_t i = 0; i < files->count; i++)
        for (int64_t e = 0; e < files->tensors[i].dims[0] * files->tensors[i].dims[1]; e++) {
            const char *element = (const char *)&files->tensors[i].data[e];
            const bool half = strcmp(files->tensors[i].type, "BF16") == 0;

            (void)fwrite(half ? element + 2 : element, 1, half ? 2 : 4, file);
        }
    if (fclose(file) != 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    file = fopen(path, "wb");
    if (file == NULL)
        return -1;
    (void)fprintf(file, "{%s\"r\":%lld,\"lora_alpha\":%g%s}",
                  strstr(extra, "peft_type") == NULL ? "\"peft_type\":\"LORA\"," : "", (long long)files->rank,
                  files->alpha, extra);
    return fclose(file);
}
#endif
