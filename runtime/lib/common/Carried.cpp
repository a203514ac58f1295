#include "scrimp/runtime/Carried.h"
#include "scrimp/runtime/Weights.h"

namespace scrimp::runtime {

Result<CarriedTensors> CarriedTensors::inTrailer(const program::Program *program, const char *weightsPath) {
  CarriedTensors result;
  if (!items(program->carried()).size())
    return result;
  File opened;
  Result<uint64_t> start = openTrailer(weightsPath, program->weights_bytes(), opened);
  if (start.failed())
    return start.status();
  auto file = std::make_shared<const File>(std::move(opened));
  for (const program::Carried *carried : items(program->carried())) {
    Place place{file, {}};
    safetensorsType(carried->dtype()->str(), place.tensor.type); // verifyProgram knows it
    place.tensor.offset = *start + carried->weights_offset();
    for (int64_t extent : items(carried->shape()))
      place.tensor.shape.push_back(extent);
    std::vector<std::string> all{carried->name()->str()};
    for (const flatbuffers::String *alias : items(carried->aliases()))
      all.push_back(alias->str());
    for (const std::string &name : all)
      result.places[name] = place;
    result.names.push_back(std::move(all));
  }
  return result;
}

Status CarriedTensors::take(const std::shared_ptr<const File> &file, const std::map<std::string, StoredTensor> &found) {
  for (const std::vector<std::string> &all : names)
    for (const std::string &name : all) {
      auto tensor = found.find(name);
      if (tensor == found.end())
        continue;
      if (tensor->second.shape != places[name].tensor.shape)
        return Status::error("'%s' has tensor '%s' of shape %s, the model's is %s", file->path().c_str(), name.c_str(),
                             tensor->second.shapeText().c_str(), places[name].tensor.shapeText().c_str());
      for (const std::string &other : all)
        places[other] = {file, tensor->second};
      break;
    }
  return Status::ok();
}

} // namespace scrimp::runtime
