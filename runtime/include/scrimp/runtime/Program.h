// Access to a verified program. verifyProgram is the gate: behind it every offset lies inside the arena, every kernel
// and library function exists and accepts its arguments, so nothing later checks again.
#ifndef SCRIMP_RUNTIME_PROGRAM_H
#define SCRIMP_RUNTIME_PROGRAM_H

#include "scrimp/runtime/DType.h"
#include "scrimp/runtime/Runtime.h"
#include "scrimp/runtime/Status.h"
#include <string_view>
#include <vector>

namespace scrimp::runtime {

inline constexpr uint32_t programVersion = 3;

/// Checks the image from bytes to meaning; safe on arbitrary bytes.
Result<const program::Program *> verifyProgram(const ProgramImage &image);

/// Fails if the program needs instructions that this processor lacks.
Status checkProcessor(const program::Program *program);

/// FlatBuffers leaves an empty vector out: iterate over either.
template <typename T> struct Items {
  const flatbuffers::Vector<T> *vector;
  auto begin() const { return vector ? vector->begin() : typename flatbuffers::Vector<T>::const_iterator(nullptr, 0); }
  auto end() const { return vector ? vector->end() : typename flatbuffers::Vector<T>::const_iterator(nullptr, 0); }
  size_t size() const { return vector ? vector->size() : 0; }
};
template <typename T> Items<T> items(const flatbuffers::Vector<T> *vector) { return {vector}; }

inline std::string_view textOf(const flatbuffers::String *text) {
  return text ? std::string_view(text->c_str(), text->size()) : std::string_view();
}

/// Samples that each rank has room for: the first ranks fill all, the others maybe one less.
inline int64_t placesPerRank(const program::Program *program) {
  int64_t world = program->world();
  return program->batch() / world + (program->batch() % world != 0);
}

/// Elements of a verified shape.
int64_t elementCount(const flatbuffers::Vector<int64_t> *shape);
/// "[8, 64]"
std::string shapeText(const flatbuffers::Vector<int64_t> *shape);
inline std::vector<int64_t> shapeOf(const program::Tensor *tensor) {
  return {items(tensor->shape()).begin(), items(tensor->shape()).end()};
}
/// Bytes of a verified tensor or input.
template <typename Table> int64_t byteCount(const Table *table) {
  return elementCount(table->shape()) * elementBytes(table->dtype());
}

/// Calls visit(command) for each command of a list, those inside others included.
template <typename Visit>
void forEachCommand(const flatbuffers::Vector<flatbuffers::Offset<program::Command>> *list, Visit visit) {
  for (const program::Command *command : items(list)) {
    visit(command);
    if (const program::Repeat *repeat = command->body_as_Repeat())
      forEachCommand(repeat->commands(), visit);
    if (const program::Conditional *conditional = command->body_as_Conditional())
      forEachCommand(conditional->commands(), visit);
  }
}

const program::Graph *findGraph(const program::Program *program, std::string_view name);
const program::Output *findOutput(const program::Graph *graph, std::string_view name);
const program::Hyperparameter *findHyperparameter(const program::Program *program, std::string_view name);

} // namespace scrimp::runtime

#endif
