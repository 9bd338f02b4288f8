/* Places of initializers in files of external data. */
#include "ort.h"
#include <stdlib.h>
#include <string.h>

struct OrtExternalInitializerInfo {
    int64_t offset;
    size_t bytes;
    char path[];
};

OrtStatus *ort_CreateExternalInitializerInfo(const char *filepath, int64_t file_offset, size_t byte_size,
                                             OrtExternalInitializerInfo **out)
{
    OrtExternalInitializerInfo *info;

    ORT_NEED(filepath);
    ORT_NEED(out);
    *out = NULL;
    if (file_offset < 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "CreateExternalInitializerInfo: the offset %lld is negative",
                        (long long)file_offset);
    info = malloc(sizeof *info + strlen(filepath) + 1);
    if (info == NULL)
        return ort_no_memory();
    info->offset = file_offset;
    info->bytes = byte_size;
    memcpy(info->path, filepath, strlen(filepath) + 1);
    *out = info;
    return NULL;
}

void ort_ReleaseExternalInitializerInfo(OrtExternalInitializerInfo *input)
{
    free(input);
}

const char *ort_ExternalInitializerInfo_GetFilePath(const OrtExternalInitializerInfo *info)
{
    return info->path;
}

int64_t ort_ExternalInitializerInfo_GetFileOffset(const OrtExternalInitializerInfo *info)
{
    return info->offset;
}

size_t ort_ExternalInitializerInfo_GetByteSize(const OrtExternalInitializerInfo *info)
{
    return info->bytes;
}
