"""The flight recorder: numbers of the last steps, written to the run when something goes wrong.

flight_hooks     Hooks of a watched step: module outputs, gradients as the optimizer reads them, the loss
flight_recorder  Watches every step, judges it one step later, and writes the ring when a trigger fires
flight_step      `FlightStep`: one step as triggers see it
readings         The numbers of one step: read at once on the CPU, in batches and without waiting on a device
recorded         Takes the numbers of a step that the schedule records from its recording
ring             The last steps, in memory and on request in a memory-mapped file
settings         `Flight`: the settings of a flight recorder
triggers         The triggers: loss spike, NaN or Inf, jump of the gradient norm, exception
"""
