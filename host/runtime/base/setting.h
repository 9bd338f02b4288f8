/* base/setting.h - a setting of a provider, as the user wrote it. */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

typedef struct provider_setting {
    const char *name;
    const char *value;
} provider_setting;
#endif
