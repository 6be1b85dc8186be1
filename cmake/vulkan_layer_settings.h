// VK_EXT_layer_settings as ggml-vulkan.cpp uses it, for headers before 1.3.272, which lack it alone.
// A loader or driver that does not know the structure passes over it, as over any in a pNext chain.
#pragma once

#include <cstdint>
#include <vector>

namespace vk {

enum class LayerSettingTypeEXT : int32_t { eBool32 = 0 };

struct LayerSettingEXT {
    const char * pLayerName;
    const char * pSettingName;
    LayerSettingTypeEXT type;
    uint32_t valueCount;
    const void * pValues;
};

struct LayerSettingsCreateInfoEXT {
    explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT> & settings)
        : settingCount(static_cast<uint32_t>(settings.size())), pSettings(settings.data()) {}

    int32_t sType = 1000496000;
    const void * pNext = nullptr;
    uint32_t settingCount;
    const LayerSettingEXT * pSettings;
};

} // namespace vk
