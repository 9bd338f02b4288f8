/* base/setting.h - a setting of a provider: the option and its value, as the user wrote them. */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

typedef struct provider_setting {
    const char *name;
    const char *value;
} provider_setting;
#endif
